"""The loop of plain operations, against the package's own solvers on problems with known answers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from geq.errors import OptionError
from geq.export.iteration import SolvedState, find_fixed_point, steps_of
from geq.solvers import Anderson, Broyden, Picard, Solver, fixed_point

BATCH, SIZE = 6, 12


def affine(dtype: torch.dtype, rate: float = 0.9) -> tuple[Tensor, Tensor]:
    """Of z ↦ tanh(zAᵀ + b), ‖A‖ = rate."""
    generator = torch.Generator().manual_seed(1)
    matrix = torch.randn(SIZE, SIZE, generator=generator, dtype=torch.float64)
    matrix = rate * matrix / torch.linalg.matrix_norm(matrix, 2)
    shift = torch.randn(BATCH, SIZE, generator=generator, dtype=torch.float64)
    return matrix.to(dtype), (shift * torch.logspace(-2, 1, BATCH, dtype=torch.float64)[:, None]).to(dtype)


def fn(z: Tensor, matrix: Tensor, shift: Tensor) -> Tensor:
    return torch.tanh(z @ matrix.t() + shift)


def find(solver: Solver, tol: float, max_steps: int, dtype: torch.dtype = torch.float64) -> SolvedState:
    inputs = affine(dtype)
    start = torch.zeros(BATCH, SIZE, dtype=dtype)
    return find_fixed_point(
        fn, inputs, start, steps_of(solver), torch.tensor(tol, dtype=dtype), torch.tensor(max_steps)
    )


SOLVERS = [
    Picard(),
    Picard(damping=0.5),
    Anderson(),
    Anderson(memory=1),
    Anderson(memory=2),
    Anderson(memory=6, mixing=0.7),
    Anderson(memory=3, ridge=1e-4),
]


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
@pytest.mark.parametrize("max_steps", [5, 200])
def test_every_sample_ends_where_the_solver_of_the_package_ends(solver: Solver, max_steps: int) -> None:
    matrix, shift = affine(torch.float64)
    expected = fixed_point(
        lambda z: fn(z, matrix, shift),
        torch.zeros(BATCH, SIZE, dtype=torch.float64),
        solver,
        tol=1e-6,
        max_steps=max_steps,
        on_failure="ignore",
    )
    found = find(solver, 1e-6, max_steps)
    torch.testing.assert_close(found.value, expected.value, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.residual, expected.residual, rtol=1e-4, atol=1e-12)
    assert found.steps.tolist() == expected.steps.tolist()
    assert len(set(found.steps.tolist())) > 1 or max_steps == 5, "samples should need different numbers"


def test_single_precision_reaches_the_double_precision_answer() -> None:
    precise = find(Anderson(), 1e-12, 300).value
    found = find(Anderson(), 1e-6, 300, torch.float32)
    torch.testing.assert_close(found.value.double(), precise, rtol=0, atol=3e-6)


def test_a_sample_that_diverges_or_is_no_number_leaves_the_others_alone() -> None:
    def growing(z: Tensor, factor: Tensor) -> Tensor:
        return factor * z + 1

    factor = torch.tensor([[0.5], [-1e6], [math.nan], [0.9]], dtype=torch.float64)
    start = torch.zeros(4, 1, dtype=torch.float64)
    solver = steps_of(Picard())
    together = find_fixed_point(
        growing, (factor,), start, solver, torch.tensor(1e-6, dtype=torch.float64), torch.tensor(400)
    )
    torch.testing.assert_close(
        together.value[[0, 3]], torch.tensor([[2.0], [10.0]], dtype=torch.float64), rtol=2e-5, atol=0
    )
    assert float(together.residual[1]) > 1e-6
    assert int(together.steps[1]) < 10, "stopped as soon as it had blown up"
    assert math.isinf(float(together.residual[2]))
    assert int(together.steps[2]) == 1
    alone = find_fixed_point(
        growing, (factor[3:],), start[3:], solver, torch.tensor(1e-6, dtype=torch.float64), torch.tensor(400)
    )
    assert torch.equal(alone.value, together.value[3:])


def test_a_solution_that_is_zero_is_found() -> None:
    found = find_fixed_point(
        lambda z, a: a * z,
        (torch.full((2, 1), 0.1),),
        torch.ones(2, 3),
        steps_of(Anderson()),
        torch.tensor(1e-3),
        torch.tensor(50),
    )
    assert float(found.value.abs().max()) < 1e-6
    assert bool((found.residual <= 1e-3).all())


def test_other_solvers_are_refused_by_name() -> None:
    with pytest.raises(OptionError, match="Anderson and Picard: got Broyden"):
        steps_of(Broyden())
