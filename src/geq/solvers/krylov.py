"""The largest eigenvalues of many operators at once, by Arnoldi's and Lanczos' methods."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geq.solvers.base import Rows

Product = Callable[[Rows], Rows]


def largest_modulus(
    core: Product, gram: Product | None, start: Rows, tol: float, max_steps: int
) -> tuple[Float[Tensor, " batch"], Bool[Tensor, " batch"]]:
    """Return the largest |λ| of the operator core·gram of every row, and where it was found to ``tol``.

    Arnoldi's method: the eigenvalues of the operator restricted to the Krylov space of ``start``. Unlike the
    power iteration it finds pairs of complex eigenvalues, and those of opposite sign. With ``gram``, which
    must be symmetric and positive semidefinite, and a symmetric ``core``, the operator is symmetric in the
    inner product ⟨a, gram b⟩, and this is Lanczos' method with full orthogonalisation.

    Args:
        core: Maps a row per sample to another, each by itself.
        gram: See above; None for the identity and a core of any kind.
        start: Where the Krylov space begins, not zero; random, or an eigenvector may be missed.
        tol: Relative residual of the eigenvector to reach.
        max_steps: Most products, and states to keep (twice as many with ``gram``).
    """

    def measured(rows: Rows) -> Rows:
        return rows if gram is None else gram(rows)

    def inner(one: Tensor, other: Tensor) -> Tensor:
        return torch.linalg.vecdot(one, other).double()

    batch = len(start)
    H = torch.zeros(batch, max_steps + 1, max_steps, dtype=torch.float64)
    image = measured(start)
    norm = inner(start, image).clamp_min(0).sqrt()
    scale = torch.where(norm > 0, 1 / norm, 0.0).to(start.dtype).unsqueeze(1)
    basis, images = [start * scale], [image * scale]
    radius = torch.zeros(batch, dtype=torch.float64)
    found = torch.zeros(batch, dtype=torch.bool)
    for step in range(max_steps if batch else 0):
        row = core(images[step])
        size = inner(row, measured(row)).clamp_min(0).sqrt()
        for _ in range(2):  # once loses orthogonality to rounding
            for index, (vector, weighted) in enumerate(zip(basis, images, strict=True)):
                along = inner(weighted, row)
                H[:, index, step] += along.cpu()
                row = row - along.to(row.dtype).unsqueeze(1) * vector
        image = measured(row)
        norm = inner(row, image).clamp_min(0).sqrt()
        norm = torch.where(norm > 8 * torch.finfo(start.dtype).eps * size, norm, 0.0)
        scale = torch.where(norm > 0, 1 / norm, 0.0).to(start.dtype).unsqueeze(1)
        basis.append(row * scale)
        images.append(image * scale)
        left = norm.cpu()
        H[:, step + 1, step] = left
        newest, last = _largest(H[:, : step + 1, : step + 1], symmetric=gram is not None)
        # Beyond an exhausted space there is only rounding, so the first that is good enough stays.
        radius = torch.where(found, radius, newest)
        found = found | (left * last <= tol * newest)
        if bool(found.all()):
            break
    return radius.to(start), found.to(start.device)


def _largest(H: Float[Tensor, "batch n n"], symmetric: bool) -> tuple[Tensor, Tensor]:
    """Return the largest |eigenvalue| of each matrix, and the last component of its eigenvector."""
    values: Tensor
    if symmetric:
        values, vectors = torch.linalg.eigh((H + H.mT) / 2)
    else:
        values, vectors = torch.linalg.eig(H)
    index = values.abs().argmax(1, keepdim=True)
    last = vectors[:, -1].gather(1, index).abs()
    return values.abs().gather(1, index).squeeze(1), last.squeeze(1)
