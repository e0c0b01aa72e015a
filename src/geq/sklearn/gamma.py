"""Rule for γ that depends on no batch."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from geq.bandwidth import GammaRule
from geq.errors import OptionError


class ExpectedGamma(GammaRule):
    """γ = softplus(θ)/E, E the squared distance that features of unit variance have at z = 0.

    The default rule of the layers, :class:`~geq.bandwidth.LearnedGamma`, divides by a running mean over the
    batches instead. An estimator standardises its inputs, so that E serves as well, and then nothing in
    training couples one row to another: a row of weight two is two rows.

    Args:
        initial: γE at the start.
        learned: whether θ is learned.
    """

    theta: Tensor

    def __init__(self, initial: float | int, learned: bool) -> None:
        super().__init__()
        if not (math.isfinite(initial) and initial > 0):
            raise OptionError(f"gamma must be finite and above 0: got {initial!r}; 0.2 is usual")
        theta = torch.tensor(initial + math.log(-math.expm1(-initial)))
        if learned:
            self.theta = nn.Parameter(theta)
        else:
            self.register_buffer("theta", theta)

    def forward(self, q: Float[Tensor, "batch patches"], expected: Tensor, observe: bool) -> Tensor:
        return F.softplus(self.theta.to(q.dtype)) / expected
