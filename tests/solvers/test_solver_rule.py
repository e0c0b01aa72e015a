"""The eager loop, the exported loop and the trace follow the same rules at every scale."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from geq import GEQLinear
from geq.analysis.solver_trace import own_points
from geq.export.iteration import find_fixed_point, steps_of
from geq.solvers import FISTA, Anderson, Broyden, Picard, ProximalGradient, Solver, fixed_point, rules

SCALES = [1e-30, 1e-20, 1e-10, 1e-3, 1.0, 1e3, 1e10, 1e20, 1e30]
EXPORTED = [Picard(), Picard(damping=0.6), Anderson(), Anderson(memory=2), Anderson(memory=4, mixing=0.7)]
EVERY = [
    *EXPORTED,
    Broyden(),
    *(kind(step_size=size) for kind in (ProximalGradient, FISTA) for size in (0.4, 1.0, 1.5)),
]


def contraction(scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A and b of z ↦ zAᵀ + b, ‖A‖ = 0.8, for samples of different sizes."""
    generator = torch.Generator().manual_seed(3)
    matrix = torch.randn(7, 7, generator=generator, dtype=torch.float64)
    shift = scale * torch.randn(4, 7, generator=generator, dtype=torch.float64)
    return (0.8 * matrix / torch.linalg.matrix_norm(matrix, 2)).to(dtype), shift.to(dtype)


def image(z: Tensor, matrix: Tensor, shift: Tensor) -> Tensor:
    return z @ matrix.t() + shift


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("solver", EXPORTED, ids=str)
def test_exported_loop_stops_where_the_eager_one_does(
    solver: Solver[Any], scale: float, dtype: torch.dtype
) -> None:
    matrix, shift = contraction(scale, dtype)
    start, tol = torch.zeros_like(shift), 1e-4
    eager = fixed_point(lambda z: image(z, matrix, shift), start, solver, tol=tol, max_steps=200)
    exported = find_fixed_point(
        image, (matrix, shift), start, steps_of(solver), torch.tensor(tol, dtype=dtype), torch.tensor(200)
    )
    assert torch.equal(exported.steps, eager.steps)
    assert isinstance(eager.value, Tensor)
    torch.testing.assert_close(exported.value / scale, eager.value / scale, rtol=1e-3, atol=1e-3)
    exact = torch.linalg.solve(torch.eye(7, dtype=dtype) - matrix, shift.t() / scale).t()
    torch.testing.assert_close(exported.value / scale, exact, rtol=0, atol=0.01)


@pytest.mark.parametrize("offset", [1e-20, 1e-30])
def test_a_tiny_solution_is_not_answered_by_zero(offset: float) -> None:
    start = torch.zeros(1, 1, dtype=torch.float64)
    found = find_fixed_point(
        lambda z, b: z / 2 + b,
        (torch.full_like(start, offset),),
        start,
        steps_of(Picard()),
        torch.tensor(1e-3, dtype=torch.float64),
        torch.tensor(100),
    )
    assert int(found.steps) == 10
    assert float(found.value) == pytest.approx(2 * offset, rel=1e-2)


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1.0, 1e10, 1e30])
@pytest.mark.parametrize("solver", EVERY, ids=str)
def test_trace_has_as_many_points_as_the_solve_has_evaluations(solver: Solver[Any], scale: float) -> None:
    torch.manual_seed(0)
    layer = GEQLinear(6, 5, solver=solver, tol=1e-5, max_steps=400, on_failure="ignore").double().eval()
    for seed in range(3):
        x = scale * torch.randn(1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            points = own_points(layer, x)
        solution = layer.solve(x)
        assert len(points) == int(solution.steps)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("exponent", [-37, -30, 0, 18, 30, 38])
def test_row_norm_neither_overflows_nor_vanishes(dtype: torch.dtype, exponent: int) -> None:
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=dtype) * 10.0 ** (exponent - 1)
    expected = [math.hypot(*row) for row in rows.tolist()]
    assert rules.row_norm(rows).tolist() == pytest.approx(expected, rel=1e-6, abs=0.0)


def test_row_norm_passes_on_what_is_not_finite() -> None:
    rows = torch.tensor([[1.0, math.nan], [math.inf, 1.0]])
    assert not bool(torch.isfinite(rules.row_norm(rows)).any())


def test_slots_without_a_residual_get_no_weight() -> None:
    """The smallest combination of residuals uses the slots that are filled."""
    residuals = torch.tensor([[[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]], dtype=torch.float64)
    gram, identity = residuals @ residuals.mT, torch.eye(3, dtype=torch.float64)
    weights = rules.anderson_weights(
        gram,
        gram.diagonal(dim1=1, dim2=2),
        identity,
        identity[0],
        0.0,
        torch.finfo(torch.float64).eps,
        torch.linalg.solve,
    )
    # argmin ‖a·(1, 0) + (1 − a)·(½, ½)‖ = ‖(½ + a/2, ½ − a/2)‖ is at a = 0.
    torch.testing.assert_close(
        weights, torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64), atol=1e-9, rtol=0
    )
