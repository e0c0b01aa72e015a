"""Many small linear systems at once, in additions and multiplications only: ONNX has no LAPACK."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def solve_positive(
    system: Float[Tensor, "batch n n"], right: Float[Tensor, "batch n"], least_pivot: float
) -> Float[Tensor, "batch n"]:
    """The solution for symmetric matrices whose eigenvalues are at least ``least_pivot`` > 0.

    Gauss–Jordan elimination, unrolled over the n columns. It needs no exchange of rows: the pivots are Schur
    complements, so none is below the least eigenvalue. One that comes out smaller is rounding, and is raised
    to it.

    >>> solve_positive(torch.tensor([[[2.0, 1.0], [1.0, 2.0]]]), torch.tensor([[3.0, 3.0]]), 1.0)
    tensor([[1., 1.]])
    """
    n = int(system.shape[1])
    rows = torch.cat((system, right.unsqueeze(2)), 2)
    unit = torch.eye(n, dtype=system.dtype, device=system.device)
    for j in range(n):
        pivot_row = rows.narrow(1, j, 1)
        pivot_row = pivot_row / pivot_row.narrow(2, j, 1).clamp_min(least_pivot)
        # Row j becomes pivot_row; every other row loses its multiple of it.
        rows = rows - (rows.narrow(2, j, 1) - unit.narrow(1, j, 1)) * pivot_row
    return rows.select(2, n)
