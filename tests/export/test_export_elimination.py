"""The solver of small systems, against LAPACK."""

from __future__ import annotations

import pytest
import torch

from geq.export.iteration import solve_positive


@pytest.mark.parametrize("n", range(1, 7))
def test_it_solves_what_lapack_solves(n: int) -> None:
    factor = torch.randn(20, n, n, dtype=torch.float64)
    system = factor @ factor.transpose(1, 2) + 0.01 * torch.eye(n, dtype=torch.float64)
    right = torch.randn(20, n, dtype=torch.float64)
    torch.testing.assert_close(
        solve_positive(system, right, 0.01), torch.linalg.solve(system, right), rtol=1e-9, atol=1e-9
    )


def test_the_answer_is_backward_stable_where_residuals_are_nearly_parallel() -> None:
    """Scaled Gram matrices of a window are nearly of rank one; the ridge alone makes them definite."""
    ridge = torch.finfo(torch.float32).eps
    rows = torch.randn(50, 1, 40) + 1e-4 * torch.randn(50, 5, 40)
    rows = rows / rows.norm(dim=2, keepdim=True)
    system = rows @ rows.transpose(1, 2) + ridge * torch.eye(5)
    right = torch.ones(50, 5)
    found = solve_positive(system, right, ridge)
    assert bool(found.isfinite().all())
    miss = (system.double() @ found.double().unsqueeze(2)).squeeze(2) - 1
    # of the order of the rounding of system·found, and not of its (enormous) condition number
    assert float(miss.abs().max()) < 200 * ridge * float(found.abs().sum(1).max())


def test_a_pivot_lost_in_rounding_does_not_make_the_answer_infinite() -> None:
    found = solve_positive(torch.ones(1, 3, 3), torch.ones(1, 3), 1e-7)
    torch.testing.assert_close(found.sum(1), torch.ones(1), rtol=1e-5, atol=0)
