"""Behaviour of a layer that does not converge, has nothing to do, or gets nonsense."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import energy_problems
import geq
from energy_problems import CASES, SOLVERS, layer_of, vectors


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("max_steps", [1, 2])
def test_few_steps_give_the_best_iterate_seen(solver: str, max_steps: int) -> None:
    problem, x = energy_problems.dense("gaussian"), vectors()
    layer = layer_of(problem, solver=SOLVERS[solver], max_steps=max_steps, on_failure="ignore")
    solution = layer.solve(x, trace=True)
    assert solution.steps.tolist() == [max_steps] * 3
    assert solution.status is geq.Status.MAX_STEPS
    assert solution.trace is not None
    assert solution.trace.shape == (max_steps, 3)
    assert torch.equal(solution.residual, solution.trace.amin(0))
    z = layer(x)
    torch.testing.assert_close(z.detach(), solution.value)
    z.sum().backward()
    with pytest.warns(geq.ConvergenceWarning, match=rf"3 of 3 samples did not get there in {max_steps} eval"):
        layer_of(problem, solver=SOLVERS[solver], max_steps=max_steps).solve(x)


@pytest.mark.parametrize(
    "case",
    [
        "dense-linear",
        "dense-polynomial",
        "dense-gaussian",
        "dense-gaussian-paper",
        "dense-own",
        "conv-linear-zeros",
        "conv-patch-learned-circular",
        "conv-patch-paper-zeros",
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_empty_batch(case: str, training: bool) -> None:
    build, data = CASES[case]
    layer = geq.Equilibrium(build()).train(training)
    x = data()[:0].requires_grad_()
    z = layer(x)
    full = layer.eval().solve(data()).value
    layer.train(training)
    assert isinstance(full, Tensor)
    assert z.shape == (0, *full.shape[1:])
    z.sum().backward()
    assert x.grad is None or x.grad.shape == x.shape
    assert layer.energy(x).shape == (0,)
    solution = layer.solve(x, trace=True)
    assert solution.status is geq.Status.CONVERGED
    assert solution.steps.shape == (0,)
    if "gaussian" in case or "patch" in case:
        assert len(layer.attention(x)) == 0


def strong_layer(**options: object) -> geq.Equilibrium:
    """A linear kernel far beyond ‖W‖ < 1, which diverges."""
    problem = energy_problems.dense("linear", constraint=geq.constraints.Unconstrained())
    with torch.no_grad():
        problem.W.raw_weight.mul_(5)
    options = {"solver": geq.solvers.Picard(), "tol": 1e-6, "max_steps": 400, **options}
    return geq.Equilibrium(problem, **options)  # type: ignore[arg-type]


def test_failure_is_warned_of_once_in_training_and_once_in_evaluation() -> None:
    x = vectors()
    layer = strong_layer(gradient=geq.gradients.JacobianFree())
    for training in (False, True):
        with pytest.warns(geq.ConvergenceWarning, match=r"3 of 3 samples.*bound the norm of the weights"):
            layer.train(training)(x)
        z = layer(x)  # warnings are errors in the tests: there is no second one
        assert torch.isfinite(z).all(), "the best iterate"
        assert layer.last_solution is not None
        assert layer.last_solution.status is geq.Status.DIVERGED
        assert not layer.last_solution.converged.any()


@pytest.mark.parametrize("training", [True, False])
def test_failure_is_treated_as_asked(training: bool) -> None:
    x = vectors()
    for method in ("__call__", "solve", "energy"):
        with pytest.raises(geq.ConvergenceError):
            getattr(strong_layer(on_failure="raise").train(training), method)(x)
        with pytest.warns(geq.ConvergenceWarning, match="3 of 3 samples"):
            getattr(strong_layer(on_failure="warn").train(training), method)(x)
        layer = strong_layer(on_failure="ignore").train(training)
        getattr(layer, method)(x)
        assert layer.last_solution is not None
        assert layer.last_solution.status is geq.Status.DIVERGED


def test_statistics_of_the_solve() -> None:
    layer = layer_of(energy_problems.dense("gaussian"), tol=1e-6)
    assert layer.last_solution is None
    layer(vectors())
    assert layer.last_solution is not None
    assert layer.last_solution.converged.all()
    assert bool((layer.last_solution.residual <= 1e-6).all())
    assert isinstance(layer.last_solution.value, Tensor)
    assert layer.last_solution.value.numel() == 0
    trace = layer.solve(vectors(), trace=True).trace
    assert trace is not None
    assert trace.shape == (int(layer.last_solution.steps.max()), 3)
    assert layer.solve(vectors()).trace is None


OPTIONS: list[tuple[Callable[[geq.EnergyProblem], object], str]] = [
    (lambda p: geq.Equilibrium(p, tol=0.0), "tol must be above 0: got 0.0; 1e-3 is usual"),
    (lambda p: geq.Equilibrium(p, tol=float("nan")), "tol must be above 0"),
    (lambda p: geq.Equilibrium(p, max_steps=0), "max_steps must be at least 1: got 0"),
    (lambda p: geq.Equilibrium(p, on_failure="igore"), "did you mean 'ignore'"),
    (
        lambda p: geq.Equilibrium(p, maxsteps=3),
        "unknown option of Equilibrium 'maxsteps'; did you mean 'max_steps'",
    ),
    (
        lambda p: geq.Equilibrium(p, solver=geq.solvers.Anderson(memory=0)),
        "memory must be a whole number of at least 1: got 0",
    ),
    (lambda p: geq.Equilibrium(p, solver=geq.solvers.Anderson(memori=3)), "did you mean 'memory'"),
    (
        lambda p: geq.EnergyProblem(geq.kernels.LinearKernel(), W=p.W, U=p.U, penalti=None),
        "did you mean 'penalty'",
    ),
    (lambda p: geq.kernels.GaussianKernel(gama=0.5), "did you mean 'gamma'"),
]


@pytest.mark.parametrize(("build", "told"), OPTIONS)
def test_bad_options(build: Callable[[geq.EnergyProblem], object], told: str) -> None:
    with pytest.raises(geq.errors.OptionError, match=told):
        build(energy_problems.dense())
