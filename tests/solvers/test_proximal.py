"""Proximal gradient and FISTA on convex energies."""

from __future__ import annotations

import pytest
import torch

import geq
import problems
from geq.errors import OptionError
from geq.solvers import FISTA, Anderson, Picard, ProximalGradient, fixed_point


def ill_conditioned() -> problems.Problem:
    return problems.quadratic(batch=6, size=8, smallest=0.01)


@pytest.mark.parametrize("solver", [ProximalGradient(), FISTA()], ids=str)
def test_plain_maps_are_refused(solver) -> None:
    with pytest.raises(OptionError, match=r"comes from an energy.*Anderson"):
        fixed_point(lambda z: z / 2, torch.zeros(1, 1), solver)


def test_step_one_is_picard() -> None:
    problem = problems.quadratic()
    descent = fixed_point(problem.fn, problem.start, ProximalGradient(step_size=1.0), tol=1e-8, max_steps=500)
    plain = fixed_point(problem.fn, problem.start, Picard(), tol=1e-8, max_steps=500)
    torch.testing.assert_close(descent.value, plain.value, rtol=0, atol=1e-14)
    assert torch.equal(descent.steps, plain.steps)


def test_a_short_step_works_where_the_plain_map_diverges() -> None:
    """Curvature up to 12: the map z − ∇ has eigenvalues down to −11; step sizes below 2/12 converge."""
    fn = problems.NonNegativeQuadratic(
        problems.symmetric(3, torch.linspace(1, 12, 5, dtype=torch.float64)), problems.vectors(3, 5).abs()
    )
    start = torch.ones(3, 5, dtype=torch.float64)
    plain = fixed_point(fn, start, Picard(), tol=1e-8, max_steps=500, on_failure="ignore")
    assert not bool(plain.converged.all())
    for solver in (ProximalGradient(step_size=1 / 12), FISTA(step_size=1 / 12)):
        solution = fixed_point(fn, start, solver, tol=1e-11, max_steps=1000)
        torch.testing.assert_close(solution.value, fn.answer, rtol=0, atol=1e-9)


def test_the_stopping_rule_does_not_depend_on_the_step() -> None:
    """A tiny step hardly moves, yet must not pass for convergence: the residual is the gradient mapping."""
    problem = problems.quadratic()
    short = fixed_point(
        problem.fn, problem.start, ProximalGradient(step_size=1e-6), max_steps=5, on_failure="ignore"
    )
    assert not bool(short.converged.all())
    assert float(short.residual.max()) > 0.1


def test_fista_beats_proximal_gradient_when_ill_conditioned() -> None:
    problem = ill_conditioned()
    plain = fixed_point(problem.fn, problem.start, ProximalGradient(0.6), tol=1e-4, max_steps=20000)
    fast = fixed_point(problem.fn, problem.start, FISTA(0.6), tol=1e-4, max_steps=20000)
    hard = plain.steps > 300
    assert bool(hard.any())
    assert bool((fast.steps[hard] * 4 < plain.steps[hard]).all())


def test_restart_helps_where_it_should() -> None:
    problem = ill_conditioned()
    restarted = fixed_point(problem.fn, problem.start, FISTA(0.6), tol=1e-6, max_steps=20000)
    free = fixed_point(problem.fn, problem.start, FISTA(0.6, restart=False), tol=1e-6, max_steps=20000)
    hard = free.steps > 100
    assert bool(hard.any())
    assert bool((restarted.steps[hard] < free.steps[hard]).all())


def test_restart_is_per_sample() -> None:
    solver = FISTA(step_size=1.0)
    z = torch.zeros(2, 1, dtype=torch.float64)
    memory = solver.init(z)
    for residual in ([[1.0], [1.0]], [[1.0], [1.0]], [[-0.1], [1.0]]):
        r = torch.tensor(residual, dtype=torch.float64)
        before, (z, memory) = z, solver.step(z, z + r, r, memory)
    # momentum would carry the first sample uphill: it stays at its proximal point; the second goes beyond
    torch.testing.assert_close(z[0], before[0] - 0.1)
    assert z[1] > before[1] + 1
    assert memory.t[0] < memory.t[1]


def test_energy_and_map_have_the_same_minimiser() -> None:
    problem = problems.quadratic()
    accelerated = fixed_point(problem.fn, problem.start, Anderson(), tol=1e-12, max_steps=300)
    descended = fixed_point(problem.fn, problem.start, FISTA(), tol=1e-12, max_steps=300)
    torch.testing.assert_close(accelerated.value, descended.value, rtol=0, atol=1e-10)


@pytest.mark.parametrize("solver", [ProximalGradient(step_size=1e-9), FISTA(step_size=1e-9)], ids=str)
def test_a_step_that_is_lost_in_rounding_is_refused(solver: ProximalGradient | FISTA) -> None:
    """z + 1e-9·(…) is z in single precision, wherever z is: a residual of zero that means nothing."""
    torch.manual_seed(0)
    layer = geq.OptEqLinear(3, 8, solver=solver, tol=1e-4).eval()
    with pytest.raises(OptionError, match=r"step_size·tol must be at least 4\.8e-07"):
        layer.solve(torch.randn(2, 3), torch.rand(2, 8))
    layer = layer.double()
    layer.on_failure = "ignore"
    exact = layer.solve(torch.randn(2, 3).double(), torch.rand(2, 8).double())
    assert not bool(exact.converged.any())
