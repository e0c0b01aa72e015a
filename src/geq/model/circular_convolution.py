"""Circular convolutions in the Fourier domain, where they are one small matrix per frequency.

A circular convolution K on maps of n channels acts on the Fourier coefficients of a map as (Kz)^(ω) =
K̂(ω)ẑ(ω) with n×n matrices K̂(ω), its *symbol*. Sums, products, adjoints (K̂ᴴ) and inverses of such operators
are those of their symbols, so everything here is exact. Symbols are ``(frequency, n, n)`` complex tensors
over the half of the frequencies that determines a real map.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor

SQUARINGS = 3


def symbol(
    kernel: Float[Tensor, "n n side side"], height: int, width: int
) -> Complex[Tensor, "frequency n n"]:
    """The symbol of z ↦ conv2d(z, kernel) with circular padding, on maps of this size.

    ``conv2d`` is a correlation: its kernel is reflected, and its centre moved to the origin.
    """
    side = kernel.shape[-1]
    reflected = F.pad(kernel.flip(2, 3), (0, width - side, 0, height - side))
    centred = reflected.roll((-(side // 2), -(side // 2)), (2, 3))
    return torch.fft.rfft2(centred).permute(2, 3, 0, 1).reshape(-1, *kernel.shape[:2])


def apply_symbol(
    operator: Complex[Tensor, "frequency n n"], z: Float[Tensor, "batch n height width"]
) -> Float[Tensor, "batch n height width"]:
    """The map with coefficients K̂(ω)ẑ(ω)."""
    batch, channels, height, width = z.shape
    coefficients = torch.fft.rfft2(z).permute(2, 3, 1, 0)
    product = torch.bmm(operator, coefficients.reshape(-1, channels, batch))
    return torch.fft.irfft2(product.view(coefficients.shape).permute(3, 2, 0, 1), s=(height, width))


def identity_like(operator: Complex[Tensor, "frequency n n"]) -> Complex[Tensor, "n n"]:
    return torch.eye(operator.shape[-1], dtype=operator.dtype, device=operator.device)


@torch.no_grad()
def norm_upper_bound(operator: Complex[Tensor, "frequency n n"]) -> Float[Tensor, ""]:
    """A number that the operator norm, max_ω ‖K̂(ω)‖, does not exceed, and exceeds by n^(1/32) at most.

    With G = K̂ᴴK̂ and p = 2³, ‖K̂‖^{2p} = ‖G^p‖ ≤ ‖G^p‖_F ≤ √n‖G^p‖, and G^p takes three squarings (the Gram
    iteration of Delattre et al. 2023). Powers are kept at unit size, with their scale as a logarithm.
    """
    power = operator.mH @ operator
    scale = power.real.new_zeros(power.shape[0])
    for _ in range(SQUARINGS):
        size = torch.linalg.matrix_norm(power).clamp_min(torch.finfo(scale.dtype).tiny)
        power = power / size[:, None, None]
        power, scale = power @ power, 2 * (scale + size.log())
    logarithms = scale + torch.linalg.matrix_norm(power).log()
    return (logarithms / 2 ** (SQUARINGS + 1)).max().exp()
