"""Other ways to keep ‖W‖ ≤ bound. They differ in how strong the feedback becomes below it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from geq.constraints.spectral import Apply, SpectralBound

START = 2.0
"""Of the learned numbers: sigmoid(2) ≈ 0.88, near the bound and not yet flat."""


class SpectralEquality(SpectralBound):
    """W = bound·V/σ: the norm *is* the bound, however small V becomes."""

    def factor(self, sigma: Tensor) -> Tensor:
        return self.bound / sigma.clamp_min(torch.finfo(sigma.dtype).tiny)


class LearnedSpectralBound(SpectralEquality):
    """W = bound·s(θ)·V/σ with s the logistic function and one number θ learned: any norm below the bound."""

    theta: nn.Parameter

    def adopt(self, weight: Tensor) -> None:
        super().adopt(weight)
        self.theta = nn.Parameter(weight.new_full((), START))

    def factor(self, sigma: Tensor) -> Tensor:
        return super().factor(sigma) * self.theta.to(sigma.dtype).sigmoid()


class ChannelGainBound(SpectralEquality):
    """W = diag(s(θ))·bound·V/σ: a learned gain below 1 for each output channel, which keeps the bound."""

    theta: nn.Parameter

    def adopt(self, weight: Tensor) -> None:
        super().adopt(weight)
        self.theta = nn.Parameter(weight.new_full((weight.shape[0], *[1] * (weight.dim() - 1)), START))

    def factor(self, sigma: Tensor) -> Tensor:
        return super().factor(sigma) * self.theta.to(sigma.dtype).sigmoid()


class FrobeniusBound(SpectralBound):
    """W = V/max(1, s/bound) with s = √k·‖V‖_F, k the number of taps of a convolution (1 for a matrix).

    ‖A‖ ≤ Σ_taps ‖V_tap‖_F ≤ √k·‖V‖_F, so the bound holds, without an iteration, but far from reached.
    """

    def forward(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        taps = weight[0, 0].numel()
        return weight * self.factor(taps**0.5 * weight.norm())
