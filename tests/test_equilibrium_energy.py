"""The energy at the equilibrium: lowest, differentiable, explained by attention."""

from __future__ import annotations

import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor

import energy_problems
import geq
from energy_problems import CASES, maps, vectors


def layer_of(problem: geq.EnergyProblem | geq.Cell, **options: object) -> geq.Equilibrium:
    options = {"tol": 1e-11, "max_steps": 2000, **options}
    return geq.Equilibrium(problem, **options).eval()  # type: ignore[arg-type]


def convex_problems() -> dict[str, geq.EnergyProblem]:
    penalties = [
        geq.penalties.NonNegative(),
        geq.penalties.Box(-0.1, 0.3),
        geq.penalties.L1(0.2),
        geq.penalties.ElasticNet(0.1, 0.4),
        geq.penalties.NoPenalty(),
    ]
    return {
        f"{kernel}-{type(penalty).__name__}": energy_problems.dense(kernel, penalty=penalty, constraint=norm)
        for kernel, norm in [
            ("linear", geq.constraints.SpectralBound(0.95)),
            ("gaussian", geq.constraints.SpectralBound(1.4)),
            ("gaussian-zero", geq.constraints.SpectralBound(1.4)),
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
    problem, x = energy_problems.dense("linear"), vectors()
    W = problem.W.weight.detach()
    v = problem.inject(x).v.detach()
    L = torch.linalg.cholesky(torch.eye(W.shape[1], dtype=W.dtype) - W.T @ W)
    z = layer_of(problem).solve(x).value
    for sample in range(len(x)):
        target = torch.linalg.solve_triangular(L, v[sample][:, None], upper=False)[:, 0]
        expected = torch.from_numpy(nnls(L.T.numpy(), target.numpy())[0])
        torch.testing.assert_close(z[sample], expected, rtol=1e-7, atol=1e-8)  # type: ignore[index]


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
    layer = layer_of(energy_problems.conv(kernel))
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


@pytest.mark.parametrize(
    "solver", [geq.solvers.Anderson(mixing=0.5), geq.solvers.Broyden(), geq.solvers.FISTA()]
)
def test_energy_is_finite_though_the_solver_leaves_the_constraints(solver: geq.solvers.Solver) -> None:
    """Extrapolation makes entries slightly negative, where the indicator of z ≥ 0 is infinite."""
    torch.manual_seed(0)
    W = geq.operators.Dense(20, 20, constraint=geq.constraints.Unconstrained())
    with torch.no_grad():
        W.raw_weight.mul_(0.99 / torch.linalg.matrix_norm(W.raw_weight, 2))
    problem = geq.EnergyProblem(geq.kernels.LinearKernel(), W=W, U=geq.operators.Dense(3, 20, bias=True))
    layer = geq.Equilibrium(problem, solver=solver, tol=1e-3, max_steps=200).eval()
    x = 3 * torch.randn(300, 3)
    value = layer.solve(x).value
    assert isinstance(value, Tensor)
    assert bool((value < 0).any())
    assert torch.isfinite(layer.energy(x)).all()


def test_second_derivative_of_the_energy_is_refused_or_right() -> None:
    x = energy_problems.small_vectors().requires_grad_()
    layer = layer_of(energy_problems.dense("gaussian"))
    with pytest.raises(geq.errors.GradientError, match="silently wrong"):
        torch.autograd.grad(layer.energy(x).sum(), x, create_graph=True)
    unrolled = layer_of(energy_problems.dense("gaussian"), gradient=geq.gradients.Unrolled(30))
    assert torch.autograd.gradgradcheck(unrolled.energy, (x,), fast_mode=True)


def test_attention_is_the_weight_of_each_patch() -> None:
    layer = layer_of(energy_problems.conv("patch"))
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


class Halving(geq.Cell):
    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        return 0.5 * z + c


@pytest.mark.parametrize("method", ["energy", "attention"])
def test_cell_of_ones_own_has_no_energy(method: str) -> None:
    layer = geq.Equilibrium(Halving())
    with pytest.raises(geq.errors.OptionError, match="Halving has no energy: it is not an EnergyProblem"):
        getattr(layer, method)(vectors())
    assert layer.well_posedness().unique is None, "nothing is known"
    with pytest.raises(geq.errors.OptionError, match="needs an equation that comes from an energy"):
        geq.Equilibrium(Halving(), solver=geq.solvers.FISTA())(vectors())
