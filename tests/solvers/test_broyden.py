"""Theory of Broyden's method."""

from __future__ import annotations

import torch

import problems
from geq.solvers import Broyden, Picard, fixed_point


def dense_good_broyden(problem: problems.Problem, sample: int, count: int) -> torch.Tensor:
    """The textbook method with a dense inverse Jacobian, for one sample."""
    size = problem.start.shape[1]

    def g(z: torch.Tensor) -> torch.Tensor:
        batch = problem.start.clone()
        batch[sample] = z
        return problem.fn(batch)[sample] - z

    z = problem.start[sample]
    inverse = -torch.eye(size, dtype=z.dtype)
    points = [z]
    for _ in range(count - 1):
        s = -inverse @ g(z)
        y = g(z + s) - g(z)
        inverse = inverse + torch.outer(s - inverse @ y, s @ inverse) / (s @ inverse @ y)
        z = z + s
        points.append(z)
    return torch.stack(points)


def test_iterates_are_those_of_the_dense_method() -> None:
    problem = problems.tanh()
    seen: list[torch.Tensor] = []

    def watched(z: torch.Tensor) -> torch.Tensor:
        seen.append(z.clone())
        return problem.fn(z)

    fixed_point(watched, problem.start, Broyden(memory=20), tol=1e-14, max_steps=8, on_failure="ignore")
    for sample in range(4):
        expected = dense_good_broyden(problem, sample, 8)
        torch.testing.assert_close(torch.stack(seen)[:, sample], expected, rtol=0, atol=1e-11)


def test_affine_maps_end_in_twice_the_dimension() -> None:
    """Gay's theorem: Broyden's method ends after at most 2n steps on affine maps."""
    problem = problems.stiff(size=5)
    solution = fixed_point(problem.fn, problem.start, Broyden(memory=20), tol=1e-9, max_steps=50)
    assert int(solution.steps.max()) <= 2 * 5 + 1


def test_beats_picard_on_a_stiff_problem() -> None:
    problem = problems.stiff()
    plain = fixed_point(problem.fn, problem.start, Picard(), tol=1e-8, max_steps=3000)
    fast = fixed_point(problem.fn, problem.start, Broyden(), tol=1e-8, max_steps=3000)
    assert int(fast.steps.max()) * 5 < int(plain.steps.min())


def test_solves_maps_that_are_no_contraction() -> None:
    problem = problems.diverging()
    solution = fixed_point(problem.fn, problem.start, Broyden(), tol=1e-10)
    torch.testing.assert_close(solution.value, problem.answer, rtol=0, atol=1e-8)


def test_a_residual_that_grows_tenfold_resets_that_sample_only() -> None:
    solver = Broyden()
    z = torch.zeros(2, 2, dtype=torch.float64)
    memory = solver.init(z)
    first = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    z, memory = solver.step(z, z + first, first, memory)
    second = torch.tensor([[20.0, 5.0], [0.5, 0.0]], dtype=torch.float64)
    following, memory = solver.step(z, z + second, second, memory)
    assert memory.valid[:, 0].tolist() == [0.0, 1.0]
    torch.testing.assert_close(following[0], (z + second)[0])
    # the secant through residuals 1 at z = 0 and ½ at z = 1 has its zero at 2
    torch.testing.assert_close(following[1], torch.tensor([2.0, 0.0], dtype=torch.float64))


def test_a_repeated_residual_is_no_error() -> None:
    solution = fixed_point(
        lambda z: z + 1, torch.zeros(2, 3), Broyden(memory=3), max_steps=12, on_failure="ignore"
    )
    assert bool(torch.isfinite(solution.value).all())
