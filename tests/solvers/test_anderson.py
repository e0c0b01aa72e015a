"""Theory of Anderson acceleration."""

from __future__ import annotations

import pytest
import torch

import problems
from geq.solvers import Anderson, Picard, Status, fixed_point


def iterates(solver, problem: problems.Problem, count: int) -> torch.Tensor:
    seen = []

    def watched(z: torch.Tensor) -> torch.Tensor:
        seen.append(z.clone())
        return problem.fn(z)

    fixed_point(watched, problem.start, solver, tol=1e-14, max_steps=count, on_failure="ignore")
    return torch.stack(seen)


@pytest.mark.parametrize("mixing", [1.0, 0.6])
def test_memory_one_is_picard(mixing: float) -> None:
    problem = problems.tanh()
    torch.testing.assert_close(
        iterates(Anderson(memory=1, mixing=mixing), problem, 10),
        iterates(Picard(damping=mixing), problem, 10),
        rtol=0, atol=1e-13,
    )  # fmt: skip


@pytest.mark.parametrize("size", [2, 4, 6])
def test_affine_maps_are_solved_in_dimension_plus_two_evaluations(size: int) -> None:
    """dimension + 1 residuals determine the answer; one more evaluation measures it."""
    problem = problems.affine(batch=5, size=size)
    solver = Anderson(memory=size + 1, ridge=0.0)
    solution = fixed_point(problem.fn, problem.start, solver, tol=1e-8, max_steps=50)
    assert int(solution.steps.max()) <= size + 2
    assert int(solution.steps.max()) > size // 2
    torch.testing.assert_close(solution.value, problem.answer, rtol=1e-6, atol=1e-7)


def test_weights_minimise_the_combined_residual() -> None:
    """Against a least-squares solve of the unconstrained form, over differences of residuals."""
    problem = problems.tanh(batch=3, size=8)
    solver = Anderson(memory=4, ridge=0.0, mixing=0.7)
    points = iterates(solver, problem, 6)
    images = torch.stack([problem.fn(z) for z in points])
    residuals = images - points
    window = slice(1, 5)  # after five evaluations the oldest point has been dropped
    for sample in range(3):
        r, z = residuals[window, sample], points[window, sample]
        gamma = torch.linalg.lstsq((r[:-1] - r[-1]).T, -r[-1].unsqueeze(1)).solution.squeeze(1)
        alpha = torch.cat([gamma, 1 - gamma.sum(0, keepdim=True)])
        expected = alpha @ (z + 0.7 * r)
        torch.testing.assert_close(points[5, sample], expected, rtol=0, atol=1e-9)


def test_beats_picard_on_a_stiff_problem() -> None:
    problem = problems.stiff()
    plain = fixed_point(problem.fn, problem.start, Picard(), tol=1e-8, max_steps=3000)
    fast = fixed_point(problem.fn, problem.start, Anderson(), tol=1e-8, max_steps=3000)
    assert int(fast.steps.max()) * 5 < int(plain.steps.min())


def test_solves_maps_that_are_no_contraction() -> None:
    problem = problems.diverging()
    solution = fixed_point(problem.fn, problem.start, Anderson(), tol=1e-10)
    torch.testing.assert_close(solution.value, problem.answer, rtol=0, atol=1e-8)


def test_singular_windows_are_no_error() -> None:
    """A map whose residuals are all parallel, or repeat themselves, makes every window singular."""
    parallel = fixed_point(lambda z: z / 2 + 1, torch.zeros(2, 8), Anderson(ridge=0.0), tol=1e-6)
    torch.testing.assert_close(parallel.value, torch.full((2, 8), 2.0), rtol=1e-5, atol=0)
    shift = fixed_point(
        lambda z: z + 1, torch.zeros(2, 8), Anderson(ridge=0.0), max_steps=20, on_failure="ignore"
    )
    assert shift.status is not Status.CONVERGED
    assert bool(torch.isfinite(shift.value).all())


def test_a_sample_beyond_the_range_of_numbers_takes_the_plain_step_and_only_that_one() -> None:
    solver = Anderson(memory=2)
    z = torch.zeros(2, 2)
    window = solver.init(z)
    first = torch.tensor([[1e25, 0.0], [1.0, 0.0]])  # 1e25² is infinite in single precision
    z, window = solver.step(z, z + first, first, window)
    second = torch.tensor([[1e24, 1e24], [-1.0, 0.0]])
    following, _ = solver.step(z, z + second, second, window)
    torch.testing.assert_close(following[0], (z + second)[0])
    # residuals 1 at z = 0 and −1 at z = 1 cancel half-way, where the images 1 and 0 meet as well
    torch.testing.assert_close(following[1], torch.tensor([0.5, 0.0]))


def test_an_absolute_ridge_would_stall_and_ours_does_not() -> None:
    """Tiny problems in single precision: step counts are those of the problem at scale 1."""
    plain = problems.stiff()
    counts = []
    for scale in (1.0, 1e-6, 1e6):
        fn = problems.Affine(plain.fn.matrix.float(), scale * plain.fn.offset.float())
        counts.append(fixed_point(fn, plain.start.float(), Anderson(), tol=1e-4, max_steps=100).steps)
    for other in counts[1:]:
        assert int((other - counts[0]).abs().max()) <= 1
