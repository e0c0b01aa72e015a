"""A network in double precision that computes what the network in single precision does.

After a plain conversion a network would measure its norms again, to more digits: minutes on a large
one, and other weights than those in use. Here the effective weights are converted and left alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from geq.constraints import SpectralBound
from geq.constraints.spectral import Apply
from geq.model.network import Network
from geq.operators import Convolution


class Settled(SpectralBound):
    """The rule of a weight that satisfies its bound already."""

    def forward(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        return weight


@torch.no_grad()
def in_double(model: Network) -> Network:
    """``model`` itself, converted; for images of its own size."""
    model.eval()
    sizes = model.map_sizes()
    bounded = [
        (operator, operator.constraint.bound, operator.effective_weight(sizes[name]))
        for name, layer in model.equilibria().items()
        for operator in layer.modules()
        if isinstance(operator, Convolution) and isinstance(operator.constraint, SpectralBound)
    ]
    model.double()
    for operator, bound, weight in bounded:
        operator.raw_weight.copy_(weight)
        operator.adopt_constraint(Settled(bound))
    return model.eval()
