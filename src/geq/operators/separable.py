"""Depthwise-separable convolutions with exact adjoints: what Deep OptEq uses on ImageNet (§7.3.2)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from geq.certificates.enclosure import QUICK, ROUNDING, Enclosure
from geq.certificates.fourier_bound import wrapped
from geq.constraints.spectral import Constraint
from geq.operators.operator import Convolution, Operator, Size


class SeparableConvolution(Convolution):
    """W = PD: one k×k filter per channel (D), then a 1×1 convolution (P); Wᵀ = DᵀPᵀ.

    The filters of D are normalised to ‖·‖ = 1, since the columns of P carry their scale as well. So W is
    homogeneous in the stored weight, as every other operator is, and the norm rules apply. The stored weight
    has ``out + k²`` rows of ``in`` entries: those of P, then the taps of D.

    Args:
        in_channels, out_channels, padding, bias, constraint: As of :class:`~geq.operators.Convolution`.
        kernel_size: odd side of the filters.

    >>> a = SeparableConvolution(3, 2)
    >>> z, y = torch.randn(5, 3, 6, 6), torch.randn(5, 2, 6, 6)
    >>> torch.allclose((a(z) * y).sum(), (z * a.adjoint(y)).sum(), atol=1e-4)
    True
    """

    EXACT_NORM_SIZE = 2**24
    """Up to so many numbers in its symbol (a matrix per frequency) the norm bound is the exact one."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        padding: str = "zeros",
        bias: bool = False,
        constraint: Constraint | None = None,
    ) -> None:
        self.check_options(in_channels, out_channels, kernel_size, padding)
        weight = torch.empty(out_channels + kernel_size**2, in_channels, 1, 1)
        Operator.__init__(self, weight, False, constraint)
        self.bias = nn.Parameter(weight.new_zeros(out_channels)) if bias else None
        self.in_channels, self.out_channels, self.padding = in_channels, out_channels, padding
        self.margin = kernel_size // 2

    def parts(
        self, weight: Float[Tensor, "rows in 1 1"]
    ) -> tuple[Float[Tensor, "out in 1 1"], Float[Tensor, "in 1 k k"]]:
        """P and D."""
        side = 2 * self.margin + 1
        taps = F.normalize(weight[self.out_channels :, :, 0, 0].t(), dim=1)
        return weight[: self.out_channels], taps.reshape(self.in_channels, 1, side, side)

    def full_kernel(self, weight: Float[Tensor, "rows in 1 1"]) -> Float[Tensor, "out in k k"]:
        pointwise, depthwise = self.parts(weight)
        return pointwise * depthwise.transpose(0, 1)

    def _filtered(self, maps: Tensor, filters: Tensor) -> Tensor:
        """Every channel with its own filter."""
        zeros = self.padding == "zeros"
        maps, margin = (maps, self.margin) if zeros else (self.pad(maps), 0)
        return F.conv2d(maps, filters, padding=margin, groups=self.in_channels)

    def apply_weight(self, weight: Tensor, z: Tensor, bias: Tensor | None = None) -> Tensor:
        pointwise, depthwise = self.parts(weight)
        return F.conv2d(self._filtered(z, depthwise), pointwise, bias)

    def apply_adjoint(self, weight: Tensor, y: Tensor) -> Tensor:
        pointwise, depthwise = self.parts(weight)
        # The adjoint of a filter is the filter turned round; with an odd side the padding stays the same.
        return self._filtered(F.conv2d(y, pointwise.transpose(0, 1)), depthwise.flip(2, 3))

    def weight_gradient(self, weight: Tensor, z: Tensor, y: Tensor) -> Tensor:
        with torch.enable_grad():
            weight = weight.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.apply_weight(weight, z), weight, y)
        return gradient

    @torch.no_grad()
    def norm_enclosure(self, size: Size | None = None, budget: float = QUICK) -> Enclosure:
        """As of :class:`~geq.operators.Convolution`; for a large operator ‖P‖·‖D‖, fast but perhaps loose."""
        weight = self.effective_weight(size)
        assert size is not None
        wider = 2 * self.margin if self.padding == "zeros" else 0
        height, width = (side + wider for side in size)
        if self.in_channels * self.out_channels * height * width <= self.EXACT_NORM_SIZE:
            return super().norm_enclosure(size, budget)
        pointwise, depthwise = self.parts(weight)
        symbol = torch.fft.rfft2(wrapped(depthwise, height, width))
        upper = (1 + ROUNDING) * torch.linalg.matrix_norm(pointwise[:, :, 0, 0], 2) * symbol.abs().max()
        return Enclosure(0.0, float(upper), "Fourier")
