"""The leading singular vector of an operator that is known by its products."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]

LANCZOS_VECTORS = 12
"""Vectors of one sample's size that are kept."""


def generic_direction(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return a fixed pseudo-random unit vector, which no particular operator has as a singular vector."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(shape, generator=generator, dtype=torch.float64)
    return (start / start.norm()).to(dtype)


@torch.no_grad()
def top_direction(apply: Map, adjoint: Map, start: Tensor, most_steps: int) -> Tensor:
    """Unit vector near the leading right singular vector, by restarted Lanczos iteration on AᵀA.

    Args:
        apply, adjoint: A and Aᵀ.
        start: unit vector to begin at.
        most_steps: most products with AᵀA.
    """
    shape, tol = start.shape, 1e-11 if start.dtype == torch.float64 else 1e-5
    direction = start.flatten()
    slots = min(LANCZOS_VECTORS, direction.numel())
    for _ in range(0, most_steps, slots):
        basis = direction.new_empty(slots, direction.numel())
        projected = direction.new_zeros(slots, slots, dtype=torch.float64)
        basis[0], size, rest = direction, 0, 0.0
        while size < slots:
            image = adjoint(apply(basis[size].view(shape))).flatten()
            size += 1
            seen = basis[:size]
            projected[:size, size - 1] = (seen @ image).double()
            for _ in range(2):  # once is not enough to stay orthogonal
                image = image - seen.t() @ (seen @ image)
            rest = float(image.norm())
            if size == slots or not rest > torch.finfo(image.dtype).eps * float(projected.diagonal().max()):
                break
            basis[size] = image / rest
            projected[size, size - 1] = rest
        if not bool(torch.isfinite(projected).all()):
            break  # a weight that is not finite has no norm; what is computed with it is NaN all the same
        ritz = projected[:size, :size]
        values, vectors = torch.linalg.eigh((ritz + ritz.t()) / 2)
        direction = vectors[:, -1].to(basis.dtype) @ basis[:size]
        direction = direction / direction.norm().clamp_min(torch.finfo(basis.dtype).tiny)
        if abs(float(vectors[-1, -1])) * rest <= tol * float(values[-1]):
            break
    return direction.view(shape)
