"""The layer: what it returns, how it fails, and what it knows afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor

import geq
import hidden_problems
from hidden_problems import CASES, maps, vectors

SOLVERS: dict[str, geq.Solver] = {
    "picard": geq.Picard(),
    "damped": geq.Picard(damping=0.7),
    "anderson": geq.Anderson(),
    "anderson-mixed": geq.Anderson(memory=3, mixing=0.7),
    "broyden": geq.Broyden(),
    "proximal": geq.ProximalGradient(),
    "fista": geq.FISTA(),
}


def layer_of(problem: geq.HiddenProblem | geq.Cell, **options: object) -> geq.Equilibrium:
    options = {"tol": 1e-11, "max_steps": 2000, **options}
    return geq.Equilibrium(problem, **options).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("case", [case for case in CASES if "literal" not in case])
def test_every_solver_finds_the_same_equilibrium(case: str) -> None:
    build, data = CASES[case]
    problem, x = build(), data()
    reference = layer_of(problem, solver=geq.Picard(damping=0.5), tol=1e-10).solve(x).value
    assert isinstance(reference, Tensor)
    assert reference.abs().max() > 1e-4
    for name in SOLVERS:
        solution = layer_of(problem, solver=SOLVERS[name], tol=1e-9).solve(x)
        torch.testing.assert_close(solution.value, reference, rtol=1e-6, atol=1e-7, msg=name)
        assert solution.status is geq.Status.CONVERGED


def convex_problems() -> dict[str, geq.HiddenProblem]:
    penalties = [
        geq.NonNegative(),
        geq.Box(-0.1, 0.3),
        geq.L1(0.2),
        geq.ElasticNet(0.1, 0.4),
        geq.NoPenalty(),
    ]
    return {
        f"{kernel}-{type(penalty).__name__}": hidden_problems.dense(kernel, penalty=penalty, norm=norm)
        for kernel, norm in [
            ("linear", geq.OperatorNorm(0.95)),
            ("gaussian", geq.OperatorNorm(1.4)),
            ("gaussian-zero", geq.OperatorNorm(1.4)),
        ]
        for penalty in penalties
    }


CONVEX = convex_problems()


@pytest.mark.parametrize("name", CONVEX)
def test_no_feasible_perturbation_lowers_the_energy(name: str) -> None:
    problem, x = CONVEX[name], vectors()
    assert problem.well_posedness().unique
    z = layer_of(problem).solve(x).value
    assert isinstance(z, Tensor)
    c = problem.inject(x)
    z = problem.penalty.prox(z, 1e-12)  # feasible to the last digit
    lowest = problem.energy(z, c)
    assert torch.isfinite(lowest).all()
    better = 0
    for scale in (1e-4, 1e-2, 0.1, 1.0, 10.0):
        for _ in range(20):
            other = z + scale * torch.randn_like(z)
            other = problem.penalty.prox(other, 1e-12)
            energy = problem.energy(other, c)
            assert bool((energy >= lowest - 1e-10).all())
            better += int((energy > lowest + 1e-12).sum())
    assert better > 150, "the perturbations did perturb"


def test_linear_kernel_against_a_quadratic_solver() -> None:
    """min ½zᵀ(I − WᵀW)z − vᵀz over z ≥ 0, as non-negative least squares of a Cholesky factor."""
    problem, x = hidden_problems.dense("linear"), vectors()
    W = problem.W.weight.detach()
    v = problem.inject(x).injection.detach()
    L = torch.linalg.cholesky(torch.eye(W.shape[1], dtype=W.dtype) - W.T @ W)
    z = layer_of(problem).solve(x).value
    for sample in range(len(x)):
        target = torch.linalg.solve_triangular(L, v[sample][:, None], upper=False)[:, 0]
        expected = torch.from_numpy(nnls(L.T.numpy(), target.numpy())[0])
        torch.testing.assert_close(z[sample], expected, rtol=1e-7, atol=1e-8)  # type: ignore[index]


@pytest.mark.parametrize("solver", ["picard", "anderson", "broyden", "fista"])
@pytest.mark.parametrize("case", ["dense-gaussian", "dense-linear", "conv-patch-zeros", "dense-own"])
def test_a_sample_does_not_depend_on_its_batch(case: str, solver: str) -> None:
    """Neither value nor steps, whoever else is there and in what order, though they stop at other times."""
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
    problem = hidden_problems.dense("linear").to(dtype)
    with torch.no_grad():
        problem.U.bias.zero_()  # type: ignore[union-attr, operator]
    tol = 1e-5 if dtype == torch.float32 else 1e-9
    layer = geq.Equilibrium(problem, solver=geq.Anderson(memory), tol=tol, max_steps=200).eval()
    x = vectors().to(dtype)
    unit = layer.solve(x)
    assert unit.steps.min() > 3
    for scale, allowed in ((1e-3, 1), (1e3, 1), (2.0**-10, 0), (2.0**10, 0)):  # powers of 2 do not round
        scaled = layer.solve(scale * x)
        assert int((scaled.steps - unit.steps).abs().max()) <= allowed
        torch.testing.assert_close(scaled.value / scale, unit.value, rtol=100 * tol, atol=100 * tol)  # type: ignore[operator]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("max_steps", [1, 2])
def test_few_steps_give_the_best_iterate_seen(solver: str, max_steps: int) -> None:
    problem, x = hidden_problems.dense("gaussian"), vectors()
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
    with pytest.raises(geq.ConvergenceError, match=rf"3 of 3 samples did not get there in {max_steps} eval"):
        layer_of(problem, solver=SOLVERS[solver], max_steps=max_steps).solve(x)


def test_one_step_is_enough_at_the_equilibrium() -> None:
    problem, x = hidden_problems.dense("gaussian"), vectors()
    z = layer_of(problem, tol=1e-12).solve(x).value
    solution = layer_of(problem, tol=1e-9, max_steps=1).solve(x, z0=z)
    assert solution.converged.all()
    assert solution.steps.tolist() == [1, 1, 1]


@pytest.mark.parametrize("solver", ["picard", "anderson", "broyden", "fista"])
def test_warm_start_saves_steps(solver: str) -> None:
    problem, x = hidden_problems.dense("linear"), vectors()
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


@pytest.mark.parametrize("case", [case for case in CASES if "polynomial-literal" not in case])
def test_envelope_gradient_of_the_energy(case: str) -> None:
    """d G(z*(x); x)/dx with z* held fixed, against differences of solved energies."""
    build, data = CASES[case]
    layer = layer_of(build(), tol=1e-12)
    x = data()[:1].requires_grad_()
    energy = layer.energy(x)
    assert energy.shape == (1,)
    (gradient,) = torch.autograd.grad(energy.sum(), x)
    direction = torch.randn_like(x)
    eps = 1e-5
    with torch.no_grad():
        difference = layer.energy(x + eps * direction) - layer.energy(x - eps * direction)
    numerical = difference.item() / (2 * eps)
    assert (gradient * direction).sum().item() == pytest.approx(numerical, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("kernel", ["patch-learned", "patch-paper"])
def test_envelope_gradient_in_the_parameters(kernel: str, trained: bool) -> None:
    layer = layer_of(hidden_problems.conv(kernel))
    x = maps()[:1]
    if trained:
        layer.train()(2 * x)  # γ relative to a running scale, no longer to an expectation
        layer.eval()
    names, tensors = zip(*layer.named_parameters(), strict=True)

    def energy(*parameters: Tensor) -> Tensor:
        module = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(_Energy(layer), {f"layer.{k}": v for k, v in module.items()}, (x,))

    assert torch.autograd.gradcheck(
        energy, [t.detach().clone().requires_grad_() for t in tensors], fast_mode=True
    )


class _Energy(torch.nn.Module):
    def __init__(self, layer: geq.Equilibrium) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer.energy(x)


@pytest.mark.parametrize("solver", [geq.Anderson(mixing=0.5), geq.Broyden(), geq.FISTA()])
def test_energy_is_finite_though_the_solver_leaves_the_constraints(solver: geq.Solver) -> None:
    """Extrapolation makes entries slightly negative, where the indicator of z ≥ 0 is infinite."""
    torch.manual_seed(0)
    W = geq.Dense(20, 20, norm=geq.OperatorNorm(0.99))
    problem = geq.HiddenProblem(geq.Linear(), W=W, U=geq.Dense(3, 20, bias=True))
    layer = geq.Equilibrium(problem, solver=solver, tol=1e-3, max_steps=200).eval()
    x = 3 * torch.randn(300, 3)
    value = layer.solve(x).value
    assert isinstance(value, Tensor)
    assert bool((value < 0).any())
    assert torch.isfinite(layer.energy(x)).all()


def test_second_derivative_of_the_energy_is_refused_or_right() -> None:
    x = hidden_problems.small_vectors().requires_grad_()
    layer = layer_of(hidden_problems.dense("gaussian"))
    with pytest.raises(geq.GradientError, match="silently wrong"):
        torch.autograd.grad(layer.energy(x).sum(), x, create_graph=True)
    unrolled = layer_of(hidden_problems.dense("gaussian"), gradient=geq.Unrolled(30))
    assert torch.autograd.gradgradcheck(unrolled.energy, (x,), fast_mode=True)


@pytest.mark.parametrize("training", [True, False])
def test_gradient_in_training_and_evaluation(training: bool) -> None:
    layer = layer_of(hidden_problems.dense("gaussian")).train(training)
    x = vectors().requires_grad_()
    layer(x).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().max() > 1e-3
    assert all(p.grad is not None and p.grad.any() for p in layer.parameters())


def strong_layer(**options: object) -> geq.Equilibrium:
    """A linear kernel far beyond ‖W‖ < 1, which diverges."""
    problem = hidden_problems.dense("linear", norm=geq.NoNorm())
    with torch.no_grad():
        problem.W.raw_weight.mul_(5)
    options = {"solver": geq.Picard(), "tol": 1e-6, "max_steps": 400, **options}
    return geq.Equilibrium(problem, **options)  # type: ignore[arg-type]


def test_failure_raises_in_evaluation_and_is_told_in_training() -> None:
    x = vectors()
    layer = strong_layer(gradient=geq.JacobianFree())
    with pytest.raises(
        geq.ConvergenceError, match=r"3 of 3 samples.*bound the norm of the weights"
    ) as caught:
        layer.eval()(x)
    assert caught.value.solution.status is geq.Status.DIVERGED
    z = layer.train()(x)
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
    layer = layer_of(hidden_problems.dense("gaussian"), tol=1e-6)
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


def test_attention_is_the_weight_of_each_patch() -> None:
    layer = layer_of(hidden_problems.conv("patch"))
    x = maps()
    beta = layer.attention(x)
    assert beta.shape == (3, 2, 2, 2)
    assert not beta.requires_grad
    problem, z = layer.problem, layer.solve(x).value
    assert isinstance(z, Tensor)
    torch.testing.assert_close(beta, problem.attention(z, problem.inject(x)).detach())
    assert 0 < float(beta.min()) < float(beta.max()) <= 1
    # Where the state explains the input exactly, β is 1: an outlier gets less.
    x[0] *= 20
    assert layer.attention(x)[0].mean() < beta[0].mean()


def test_well_posedness_is_that_of_the_problem() -> None:
    layer = layer_of(hidden_problems.dense("gaussian"))
    assert layer.well_posedness() == layer.problem.well_posedness()
    assert layer.well_posedness().contraction


class Halving(geq.Cell):
    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        return 0.5 * z + c


@pytest.mark.parametrize("method", ["energy", "attention"])
def test_cell_of_ones_own_has_no_energy(method: str) -> None:
    layer = geq.Equilibrium(Halving())
    with pytest.raises(geq.OptionError, match="Halving has no energy: it was not made from a HiddenProblem"):
        getattr(layer, method)(vectors())
    assert layer.well_posedness().unique is None, "nothing is known"
    with pytest.raises(geq.OptionError, match="needs a map that comes from an energy"):
        geq.Equilibrium(Halving(), solver=geq.FISTA())(vectors())


def test_derived_cell_can_be_asked_for() -> None:
    problem, x = hidden_problems.dense("gaussian"), vectors().requires_grad_()
    closed, derived = layer_of(problem), layer_of(geq.DerivedCell(problem))
    torch.testing.assert_close(derived(x), closed(x), rtol=1e-9, atol=1e-10)
    gradients: list[Tensor] = [torch.autograd.grad(layer(x).sum(), x)[0] for layer in (closed, derived)]
    torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(derived.energy(x), closed.energy(x))


def test_repr_shows_how_it_is_solved() -> None:
    shown = repr(geq.Equilibrium(hidden_problems.dense(), solver=geq.Anderson(memory=3), tol=1e-3))
    for piece in ("Anderson(memory=3", "Implicit(", "tol=0.001", "max_steps=50", "HiddenProblem", "Gaussian"):
        assert piece in shown


OPTIONS: list[tuple[Callable[[geq.HiddenProblem], object], str]] = [
    (lambda p: geq.Equilibrium(p, tol=0.0), "tol must be above 0: got 0.0; 1e-3 is usual"),
    (lambda p: geq.Equilibrium(p, tol=float("nan")), "tol must be above 0"),
    (lambda p: geq.Equilibrium(p, max_steps=0), "max_steps must be at least 1: got 0"),
    (lambda p: geq.Equilibrium(p, on_failure="igore"), "did you mean 'ignore'"),
    (
        lambda p: geq.Equilibrium(p, maxsteps=3),
        "unknown option of Equilibrium 'maxsteps'; did you mean 'max_steps'",
    ),
    (
        lambda p: geq.Equilibrium(p, solver=geq.Anderson(memory=0)),
        "memory must be a whole number of at least 1: got 0",
    ),
    (lambda p: geq.Equilibrium(p, solver=geq.Anderson(memori=3)), "did you mean 'memory'"),
    (lambda p: geq.HiddenProblem(geq.Linear(), W=p.W, U=p.U, penalti=None), "did you mean 'penalty'"),
    (lambda p: geq.Gaussian(gama=0.5), "did you mean 'gamma'"),
]


@pytest.mark.parametrize(("build", "told"), OPTIONS)
def test_bad_options(build: Callable[[geq.HiddenProblem], object], told: str) -> None:
    with pytest.raises(geq.OptionError, match=told):
        build(hidden_problems.dense())
