"""A network in double precision that computes what the network in single precision does.

Converted as it is, a network would measure the norms of its weights anew, to more digits: minutes on a large
one, and other weights than those in use. Here the effective weights are converted and left alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from geq.model.cost import zero_image
from geq.model.network import Network
from geq.problem import Conv2d, OperatorNorm
from geq.problem.norm import Apply
from geq.training.tolerance import measured_failures


class Settled(OperatorNorm):
    """The rule of a weight that satisfies its bound already."""

    def forward(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        return weight


@torch.no_grad()
def in_double(model: Network) -> Network:
    """``model`` itself, converted; for images of its own size."""
    model.eval()
    with measured_failures(model):
        model(zero_image(model))  # the norm of a convolution depends on the size of its maps
    operators = [module for module in model.modules() if isinstance(module, Conv2d)]
    bounded = [operator for operator in operators if isinstance(operator.norm, OperatorNorm)]
    weights = [
        operator.bind(operator.raw_weight.new_empty(1, 1, *operator.grid)).weight for operator in bounded
    ]
    model.double()
    for operator, weight in zip(bounded, weights, strict=True):
        assert isinstance(operator.norm, OperatorNorm)
        operator.raw_weight.copy_(weight)
        operator.adopt_norm(Settled(operator.norm.bound))
    return model.eval()
