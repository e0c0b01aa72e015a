"""Circular convolutions by frequency, where each is one small matrix: their largest singular value."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from geq.certificates.patch_root import PatchRoot

POWER_STEPS = 20

SMALL_SYMBOL = 128
"""Up to this size eigenvalues of a frequency are computed; beyond, a Cholesky factorisation is cheaper."""


def wrapped(
    kernel: Float[Tensor, "out in k k"], height: int, width: int
) -> Float[Tensor, "out in {height} {width}"]:
    """Return the kernel laid on a periodic grid, folded where the grid is smaller than the kernel."""
    folded = kernel.new_zeros(*kernel.shape[:2], height, width)
    for i in range(kernel.shape[2]):
        for j in range(kernel.shape[3]):
            folded[:, :, i % height, j % width] += kernel[:, :, i, j]
    return folded


def symbol_grams(
    weight: Tensor, height: int, width: int, root: PatchRoot | None
) -> Iterator[Complex[Tensor, "frequencies n n"]]:
    """AAᴴ of the circular convolution at its frequencies, half of them (the others are conjugate).

    A patch sees p² frequencies at once, those that differ by a multiple of the coarse grid's size: with K_l
    the Gram matrix of frequency l, its pixels a and b meet with Σ_l e^{2πiω_l·(a−b)/N} K_l / p².
    """
    symbol = torch.fft.fft2(wrapped(weight, height, width)).permute(2, 3, 0, 1)
    if root is None:
        for row in symbol[: height // 2 + 1]:
            yield row @ row.mH
        return
    p, channels = root.patch, weight.shape[0]
    rows, columns = height // p, width // p
    differences = torch.arange(p, dtype=torch.float64)[:, None] - torch.arange(p, dtype=torch.float64)
    at = torch.arange(width)
    horizontal = torch.exp(2j * math.pi / width * at[:, None, None] * differences)
    size = p * p * channels
    for i in range(rows // 2 + 1):
        mixed = symbol.new_zeros(columns, p, p, channels, p, p, channels)
        for row in range(i, height, rows):
            values = symbol[row].conj()
            gram = values @ values.mH
            # One axis after the other: first the frequencies along a row that a patch cannot tell apart.
            across = torch.einsum(
                "mnbd,mnef->nbedf",
                horizontal.view(p, columns, p, p),
                gram.view(p, columns, channels, channels),
            )
            vertical = torch.exp(2j * math.pi / height * row * differences) / p**2
            for a in range(p):
                for c in range(p):
                    mixed[:, a, :, :, c].add_(across, alpha=complex(vertical[a, c]))
        once = [root.rows(part, p) for part in mixed.reshape(columns, size, size)]
        yield torch.stack([root.rows(part.mH, p).mH for part in once])


def top_eigenvalue(grams: Complex[Tensor, "frequencies n n"]) -> float:
    """Return a lower bound of the largest eigenvalue, by a few power iterations."""
    vector = grams.sum(-1, keepdim=True)
    for _ in range(POWER_STEPS):
        vector = grams @ (vector / torch.linalg.vector_norm(vector, dim=1, keepdim=True).clamp_min(1e-150))
    return float(torch.linalg.vector_norm(vector, dim=1).max())


def fourier_bound(weight: Tensor, height: int, width: int, root: PatchRoot | None, guess: float) -> float:
    """Return the largest singular value over all frequencies, for large matrices at most 0.25 % too big."""
    tau = max(guess, 1e-150) ** 2
    for grams in symbol_grams(weight, height, width, root):
        if grams.shape[-1] <= SMALL_SYMBOL:
            tau = max(tau, float(torch.linalg.eigvalsh(grams)[:, -1].max()))
            continue
        tau = max(tau, top_eigenvalue(grams))
        identity = torch.eye(grams.shape[-1], dtype=grams.dtype)
        while bool(torch.linalg.cholesky_ex(tau * identity - grams).info.any()):
            tau *= 1.005
    return math.sqrt(tau)
