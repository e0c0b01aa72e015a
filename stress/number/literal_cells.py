"""The cells by the formulas of the papers, in double precision.

Of a layer only what it was given is used: the effective weights of the solve, v = Ux + b, γ and W_h. Nothing
here goes through the equation in the features, the Gram matrix, the compiled kernel or a closed-form adjoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from geq.cells import DeepCell, DeepContext, EnergyProblem
from geq.equilibrium import Equilibrium
from geq.kernels import (
    BoundKernel,
    GaussianKernel,
    LinearKernel,
    PatchGaussianKernel,
    PolynomialKernel,
    SigmoidKernel,
)
from geq.operators import Convolution, LinearMap, SeparableConvolution
from geq.penalties import Box, ElasticNet, LeakyPenalty, Penalty, TanhPenalty


@dataclass(frozen=True)
class Image:
    """T(z), and per sample the size of the numbers that were added up, on which rounding acts."""

    value: Tensor
    scale: Tensor


class LiteralCell:
    """z ↦ T(z; x) of a layer for one context."""

    def __init__(self, layer: Equilibrium, context: Any) -> None:
        self.cell, self.context = layer.cell, context

    def __call__(self, z: Tensor) -> Image:
        z = z.double()
        if isinstance(self.context, DeepContext):
            assert isinstance(self.cell, DeepCell)
            return deep(self.cell, self.context, z)
        assert isinstance(self.cell, EnergyProblem)
        assert isinstance(self.context, BoundKernel)
        penalty, W, similarity = self.cell.penalty, self.context.W, self.context
        kernel, v = self.cell.kernel, similarity.v.double()
        if isinstance(kernel, GaussianKernel):
            pull, size = radial(kernel, similarity, v - times(W, z))
            s = transposed(W, pull, z)
        else:
            feedback = transposed(W, times(W, z), z)
            s = inner_product(kernel, z, v) + feedback
            size = norm(v) + norm(feedback)
        return Image(prox(penalty, s), size.nan_to_num(nan=0.0) + norm(s))


def norm(values: Tensor) -> Tensor:
    """Return the norm of every sample, without overflow or underflow of the squares."""
    rows = values.flatten(1)
    if not rows.shape[1]:
        return rows.new_zeros(len(rows))
    largest = rows.abs().amax(1).clamp_min(5e-324)
    return largest * (rows / largest.unsqueeze(1)).square().sum(1).sqrt()


def times(W: LinearMap, z: Tensor) -> Tensor:
    """Return Wz."""
    weight = W.weight.double()
    if not isinstance(W.operator, Convolution):
        return z @ weight.t()
    if isinstance(W.operator, SeparableConvolution):
        pointwise, depthwise = W.operator.parts(weight)
        weight = pointwise * depthwise.transpose(0, 1)
    margin = W.operator.margin
    mode = "constant" if W.operator.padding == "zeros" else "circular"
    return F.conv2d(F.pad(z, (margin,) * 4, mode=mode) if margin else z, weight)


def transposed(W: LinearMap, y: Tensor, z: Tensor) -> Tensor:
    """Return Wᵀy as the derivative of ⟨y, Wz⟩ in z."""
    with torch.enable_grad():
        argument = torch.zeros_like(z).requires_grad_()
        (found,) = torch.autograd.grad(times(W, argument), argument, y)
    return found


def radial(kernel: GaussianKernel | PatchGaussianKernel, bound: Any, d: Tensor) -> tuple[Tensor, Tensor]:
    """Return βdW_hW_hᵀ on every patch; for the plain Gaussian a sample is one patch and W_h the identity."""
    gamma = bound.gamma.double()
    if not isinstance(kernel, PatchGaussianKernel):
        q = d.flatten(1).square().sum(1, keepdim=True)
        weight = torch.exp(-gamma * q).view(-1, *[1] * (d.dim() - 1))
        return weight * d, norm(weight * d) * (1 + (gamma * q).amax(1))
    p, split = kernel.patch, kernel.channel_split
    b, c, h, w = d.shape
    patches = torch.stack(
        [
            d[:, k : k + split, i : i + p, j : j + p].flatten(1)
            for k in range(0, c, split)
            for i in range(0, h, p)
            for j in range(0, w, p)
        ],
        1,
    )
    projection = kernel.projection.detach().double()
    q = (patches @ projection).square().sum(-1)
    weight = torch.exp(-gamma * q).unsqueeze(-1)
    pulled = weight * (patches @ projection @ projection.t())
    # Of a patch that W_h nearly removes, q is small although what is added up is not.
    exponent = (gamma * patches.square().sum(-1)).amax(1)
    value, number = torch.empty_like(d), 0
    for k in range(0, c, split):
        for i in range(0, h, p):
            for j in range(0, w, p):
                value[:, k : k + split, i : i + p, j : j + p] = pulled[:, number].view(b, split, p, p)
                number += 1
    return value, norm(weight * patches) * (1 + exponent)


def inner_product(kernel: Any, z: Tensor, v: Tensor) -> Tensor:
    """Return slope(⟨v, z⟩)·v of GEQ table 4, as geq states it."""
    if isinstance(kernel, LinearKernel):
        return v
    size = z[0].numel() if kernel.averaged else 1
    product = (z * v).flatten(1).sum(1) / size
    if isinstance(kernel, PolynomialKernel):
        slope = (kernel.offset + product / kernel.width) ** (kernel.degree - 1)
        slope = slope if kernel.averaged else kernel.degree * slope
    else:
        assert isinstance(kernel, SigmoidKernel)
        slope = 1 / torch.cosh(product.clamp(-300, 300)).square()
    return slope.view(-1, *[1] * (z.dim() - 1)) * v


def prox(penalty: Penalty, s: Tensor) -> Tensor:
    match penalty:
        case Box():
            return torch.minimum(torch.maximum(s, s.new_tensor(penalty.low)), s.new_tensor(penalty.high))
        case ElasticNet():
            return s.sign() * (s.abs() - penalty.l1).clamp_min(0) / (1 + penalty.l2)
        case LeakyPenalty():
            return torch.where(s > 0, s, penalty.negative_slope * s)
        case TanhPenalty():
            return torch.expm1(2 * s.clamp(-300, 300)) / (torch.expm1(2 * s.clamp(-300, 300)) + 2)
    return penalty.prox(s)


def deep(cell: DeepCell, c: DeepContext, z: Tensor) -> Image:
    """Return f_L ∘ … ∘ f_1 (OptEq eq. 5–6)."""
    assert cell.regulariser is None
    scale = norm(z)
    for layer in c.layers:
        alpha = float(layer.alpha)
        s = times(layer.W, z) + layer.v.double()
        scale = scale + norm(s) + norm(layer.v.double())
        z = alpha * transposed(layer.W, prox(layer.penalty, s), z) + (1 - alpha) * z
    return Image(z, scale + norm(z))
