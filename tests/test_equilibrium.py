"""The layer: one equilibrium for every solver, batch, scale and start."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import energy_problems
import geq
from energy_problems import CASES, SOLVERS, layer_of, maps, vectors


@pytest.mark.parametrize("case", [case for case in CASES if "literal" not in case])
def test_every_solver_finds_the_same_equilibrium(case: str) -> None:
    build, data = CASES[case]
    problem, x = build(), data()
    reference = layer_of(problem, solver=geq.solvers.Picard(damping=0.5), tol=1e-10).solve(x).value
    assert isinstance(reference, Tensor)
    assert reference.abs().max() > 1e-4
    for name in SOLVERS:
        solution = layer_of(problem, solver=SOLVERS[name], tol=1e-9).solve(x)
        torch.testing.assert_close(solution.value, reference, rtol=1e-6, atol=1e-7, msg=name)
        assert solution.status is geq.Status.CONVERGED


@pytest.mark.parametrize("solver", ["picard", "anderson", "broyden", "fista"])
@pytest.mark.parametrize("case", ["dense-gaussian", "dense-linear", "conv-patch-zeros", "dense-own"])
def test_a_sample_does_not_depend_on_its_batch(case: str, solver: str) -> None:
    """Neither value nor steps depend on batch-mates or order, though samples stop at different times."""
    build, _ = CASES[case]
    x = vectors(6) if case.startswith("dense") else maps(6)
    layer = layer_of(build(), solver=SOLVERS[solver], tol=1e-6)
    start = layer_of(build(), tol=1e-9).solve(x).value
    assert isinstance(start, Tensor)
    start[[0, 2, 3, 5]] = 0  # the others begin where they end, and are done at once
    together = layer.solve(x, z0=start)
    assert together.steps[[1, 4]].tolist() == [1, 1]
    assert int(together.steps[[0, 2, 3, 5]].min()) > 2
    order = torch.tensor([4, 2, 5, 0, 1, 3])
    shuffled = layer.solve(x[order], z0=start[order])
    torch.testing.assert_close(shuffled.value, together.value[order], rtol=1e-10, atol=1e-12)  # type: ignore[index]
    assert torch.equal(shuffled.steps, together.steps[order])
    for sample in range(6):
        alone = layer.solve(x[sample : sample + 1], z0=start[sample : sample + 1])
        torch.testing.assert_close(alone.value[0], together.value[sample], rtol=1e-10, atol=1e-12)  # type: ignore[index]
        assert alone.steps[0] == together.steps[sample]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("memory", [2, 5])
def test_anderson_does_not_feel_the_scale(memory: int, dtype: torch.dtype) -> None:
    """On the bias-free linear kernel the map is homogeneous: so are the iterates of a relative ridge."""
    problem = energy_problems.dense("linear").to(dtype)
    with torch.no_grad():
        problem.U.bias.zero_()  # type: ignore[union-attr, operator]
    tol = 1e-5 if dtype == torch.float32 else 1e-9
    layer = geq.Equilibrium(problem, solver=geq.solvers.Anderson(memory), tol=tol, max_steps=200).eval()
    x = vectors().to(dtype)
    unit = layer.solve(x)
    assert unit.steps.min() > 3
    for scale, allowed in ((1e-3, 1), (1e3, 1), (2.0**-10, 0), (2.0**10, 0)):  # powers of 2 do not round
        scaled = layer.solve(scale * x)
        assert int((scaled.steps - unit.steps).abs().max()) <= allowed
        torch.testing.assert_close(scaled.value / scale, unit.value, rtol=100 * tol, atol=100 * tol)  # type: ignore[operator]


def test_one_step_is_enough_at_the_equilibrium() -> None:
    problem, x = energy_problems.dense("gaussian"), vectors()
    z = layer_of(problem, tol=1e-12).solve(x).value
    solution = layer_of(problem, tol=1e-9, max_steps=1).solve(x, z0=z)
    assert solution.converged.all()
    assert solution.steps.tolist() == [1, 1, 1]


@pytest.mark.parametrize("solver", ["picard", "anderson", "broyden", "fista"])
def test_warm_start_saves_steps(solver: str) -> None:
    problem, x = energy_problems.dense("linear"), vectors()
    layer = layer_of(problem, solver=SOLVERS[solver], tol=1e-7)
    z = layer(x)
    nearby = x + 1e-4 * torch.randn_like(x)
    cold, warm = layer.solve(nearby), layer.solve(nearby, z0=z.detach())
    assert bool((warm.steps <= cold.steps).all())
    assert int(warm.steps.sum()) < 0.8 * int(cold.steps.sum())
    torch.testing.assert_close(warm.value, cold.value, rtol=1e-4, atol=1e-5)
    attached = layer(nearby.requires_grad_(), z0=z)
    attached.sum().backward()
    assert nearby.grad is not None


@pytest.mark.parametrize("training", [True, False])
def test_gradient_in_training_and_evaluation(training: bool) -> None:
    layer = layer_of(energy_problems.dense("gaussian")).train(training)
    x = vectors().requires_grad_()
    layer(x).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().max() > 1e-3
    assert all(p.grad is not None and p.grad.any() for p in layer.parameters())


def test_well_posedness_is_that_of_the_problem() -> None:
    layer = layer_of(energy_problems.dense("gaussian"))
    assert layer.well_posedness() == layer.problem.well_posedness()
    assert layer.well_posedness().contraction


def test_a_score_of_ones_own_is_differentiated() -> None:
    problem, x = energy_problems.dense("gaussian"), vectors().requires_grad_()
    closed, derived = layer_of(problem), layer_of(energy_problems.derived(problem))
    torch.testing.assert_close(derived(x), closed(x), rtol=1e-9, atol=1e-10)
    gradients: list[Tensor] = [torch.autograd.grad(layer(x).sum(), x)[0] for layer in (closed, derived)]
    torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(derived.energy(x), closed.energy(x))


def test_repr_shows_how_it_is_solved() -> None:
    shown = repr(geq.Equilibrium(energy_problems.dense(), solver=geq.solvers.Anderson(memory=3), tol=1e-3))
    for piece in ("Anderson(memory=3", "Implicit(", "tol=0.001", "max_steps=50", "EnergyProblem", "Gaussian"):
        assert piece in shown
