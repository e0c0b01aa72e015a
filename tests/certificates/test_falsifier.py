"""Certificates under attack: a short search by day, a long one by night."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import energy_problems
import geq
import random_layers
from certificates.falsifier import check, equilibria
from energy_problems import matrix_of
from geq.cells import DeepCell, UnitLayer
from geq.model.mondeq_cell import ForwardBackwardCell, MonotoneCell, PeacemanRachfordCell
from geq.operators import SeparableConvolution
from geq.penalties import penalty_of
from geq.regularizers import FeatureDecay

recipes = random_layers.recipes(largest=1.45)


def deep_layer(
    seed: int, kind: str, alpha: float, activation: Callable | None
) -> tuple[geq.Equilibrium, Tensor]:
    torch.manual_seed(seed)
    make = {
        "dense": geq.operators.Dense,
        "conv": geq.operators.Convolution,
        "separable": SeparableConvolution,
    }[kind]
    units = [UnitLayer(make(3, n), make(2, n, bias=True), penalty_of(activation), alpha) for n in (2, 4)]
    cell = DeepCell(units, FeatureDecay() if seed % 2 else None)
    x = torch.randn(1, 2) if kind == "dense" else torch.randn(1, 2, 3, 4)
    with torch.no_grad():
        for unit in units:
            unit.W.raw_weight.mul_(5)
    return geq.Equilibrium(cell).double().eval(), x.double()


def monotone_layer(
    seed: int, kind: type[MonotoneCell], m: float, symmetric: float, skew: float
) -> tuple[geq.Equilibrium, Tensor]:
    torch.manual_seed(seed)
    cell = kind(1, 2, monotonicity=m).double()
    with torch.no_grad():
        cell.symmetric_gain.fill_(symmetric)
        cell.skew_gain.fill_(skew)
    return geq.Equilibrium(cell).eval(), torch.randn(1, 1, 3, 4, dtype=torch.float64)


def attack_problem(recipe: random_layers.Recipe) -> None:
    case = recipe.build()
    check(case.layer, case.x[:1], recipe.seed)


def attack_deep(seed: int, kind: str, alpha: float, activation: Callable | None) -> None:
    assert check(*deep_layer(seed, kind, alpha, activation), seed).unique


def attack_monotone(kind: type[MonotoneCell], seed: int, m: float, symmetric: float, skew: float) -> None:
    assert check(*monotone_layer(seed, kind, m, symmetric, skew), seed, count=3).unique


seeds = st.integers(0, 10**5)
kinds = st.sampled_from(["dense", "conv", "separable"])
activations = st.sampled_from([None, torch.nn.Tanh(), torch.nn.Softsign(), torch.nn.Hardtanh()])
cells = st.sampled_from([ForwardBackwardCell, PeacemanRachfordCell])
gains = st.floats(0.05, 5)
short, long = (settings(max_examples=n, deadline=None) for n in (12, 600))


@pytest.mark.slow
@short
@given(recipes)
def test_problems(recipe: random_layers.Recipe) -> None:
    attack_problem(recipe)


@pytest.mark.nightly
@long
@given(recipes)
def test_many_problems(recipe: random_layers.Recipe) -> None:
    attack_problem(recipe)


@short
@given(seeds, kinds, st.floats(0.05, 1), activations)
def test_deep(seed: int, kind: str, alpha: float, activation: Callable | None) -> None:
    attack_deep(seed, kind, alpha, activation)


@pytest.mark.nightly
@long
@given(seeds, kinds, st.floats(0.05, 1), activations)
def test_many_deep(seed: int, kind: str, alpha: float, activation: Callable | None) -> None:
    attack_deep(seed, kind, alpha, activation)


@pytest.mark.slow
@short
@given(cells, seeds, st.floats(0.1, 2), gains, gains)
def test_monotone(kind: type[MonotoneCell], seed: int, m: float, symmetric: float, skew: float) -> None:
    attack_monotone(kind, seed, m, symmetric, skew)


@pytest.mark.nightly
@long
@given(cells, seeds, st.floats(0.1, 2), gains, gains)
def test_many_monotone(kind: type[MonotoneCell], seed: int, m: float, symmetric: float, skew: float) -> None:
    attack_monotone(kind, seed, m, symmetric, skew)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["dense", "zeros", "circular"])
@pytest.mark.parametrize("bound", [0.95, 1.0])
def test_the_weights_in_use_are_certified(dtype: torch.dtype, kind: str, bound: float) -> None:
    """For every precision of the module the norm of what a solve applies is at most the certified one."""
    norm = geq.constraints.SpectralBound(bound)
    if kind == "dense":
        problem, x = energy_problems.dense("linear", constraint=norm), energy_problems.vectors()
    else:
        problem, x = energy_problems.conv("linear", kind, constraint=norm), energy_problems.maps()
    layer = geq.Equilibrium(problem).to(dtype).eval()
    for factor in torch.linspace(1, 2, 9).tolist():
        with torch.no_grad():
            problem.W.raw_weight.mul_(factor)
            used = problem.inject(x.to(dtype)).W
            shape = tuple(problem.initial_state(problem.inject(x.to(dtype))).shape[1:])
            matrix = matrix_of(lambda z, W=used: W.operator.apply_weight(W.weight.double(), z), shape)
            exact = float(torch.linalg.matrix_norm(matrix, 2))
        certificate = layer.well_posedness(layer.map_size(x.to(dtype)))
        assert exact <= certificate.feedback_norm
        assert not certificate.unique or exact < 1


class OwnScore(geq.EnergyProblem):
    def score(self, z: Tensor, c: object) -> Tensor:
        return 4 * super().score(z, c)


class OwnContext(geq.EnergyProblem):
    def inject(self, x: Tensor) -> object:
        return super().inject(3 * x)


class OwnValue(geq.kernels.LinearKernel):
    def value(self, u: Tensor, v: Tensor) -> Tensor:
        return super().value(u, v) + u.square().sum(-1)


class OwnGradient(geq.kernels.LinearKernel):
    def grad(self, u: Tensor, v: Tensor) -> Tensor:
        return v + 2 * u


class OwnOperator(geq.operators.Dense):
    def apply_weight(self, weight: Tensor, z: Tensor, bias: Tensor | None = None) -> Tensor:
        return super().apply_weight(2 * weight, z, bias)


class OwnPenalty(geq.penalties.NonNegative):
    def prox(self, s: Tensor, step: float = 1.0) -> Tensor:
        return 3 * super().prox(s, step)


class OwnMap(geq.EnergyProblem):
    def forward(self, z: Tensor, c: object) -> Tensor:
        return 2 * super().forward(z, c)


def replaced(
    problem: type[geq.EnergyProblem] = geq.EnergyProblem,
    kernel: type[geq.kernels.Kernel] = geq.kernels.LinearKernel,
    operator: type[geq.operators.Dense] = geq.operators.Dense,
    penalty: type[geq.penalties.Penalty] = geq.penalties.NonNegative,
) -> geq.EnergyProblem:
    return problem(kernel(), W=operator(3, 2), U=geq.operators.Dense(2, 3), penalty=penalty())


REPLACED = {
    "score": lambda: replaced(problem=OwnScore),
    "inject": lambda: replaced(problem=OwnContext),
    "value": lambda: replaced(kernel=OwnValue),
    "grad": lambda: replaced(kernel=OwnGradient),
    "apply_weight": lambda: replaced(operator=OwnOperator),
    "prox": lambda: replaced(penalty=OwnPenalty),
    "forward": lambda: replaced(problem=OwnMap),
}


@pytest.mark.parametrize("method", REPLACED)
def test_what_replaces_the_mathematics_loses_the_certificate(method: str) -> None:
    certificate = geq.Equilibrium(REPLACED[method]()).well_posedness()
    assert certificate.unique is certificate.contraction is certificate.rate is None
    assert certificate.largest_step is None
    assert f"replaces {method} and gives no" in str(certificate)


@pytest.mark.parametrize("method", ["score", "inject", "attraction"])
def test_also_on_an_instance(method: str) -> None:
    problem = replaced()
    setattr(problem, method, getattr(problem, method))
    assert problem.well_posedness().unique is None


def test_what_also_replaces_the_certificate_keeps_it() -> None:
    class Curved(OwnValue):
        def curvature(self, feedback_norm: float) -> tuple[float, float]:
            return 2.0, 2 + feedback_norm**2

    certificate = geq.Equilibrium(replaced(kernel=Curved)).well_posedness()
    assert certificate.unique is False
    assert certificate.lower == 2

    class Proved(OwnPenalty):
        convex = True

        def prox(self, s: Tensor, step: float = 1.0) -> Tensor:
            return s.clamp_min(0)

    assert geq.Equilibrium(replaced(penalty=Proved)).well_posedness().unique


def test_a_staircase_has_no_certificate() -> None:
    """Finer than the grid on which an activation is checked, and with many equilibria."""
    activation = lambda s: torch.round(s.clamp(-1, 1), decimals=3)  # noqa: E731
    layer = geq.DeepOptEqLinear(1, (1,), activation=activation, alpha=1.0).double().eval()
    with torch.no_grad():
        layer.cell.layers[0].W.raw_weight.fill_(2.0)
        layer.cell.layers[0].U.linear.raw_weight.zero_()
    assert len(equilibria(layer, torch.zeros(1, 1, dtype=torch.float64))) > 1
    certificate = layer.well_posedness()
    assert certificate.unique is None
    assert "not proved to be monotone and 1-Lipschitz" in str(certificate)


def test_the_falsifier_finds_a_second_equilibrium() -> None:
    """The search itself can fail: on the problem of its own score that was certified before."""
    problem = OwnScore(
        geq.kernels.LinearKernel(),
        W=geq.operators.Dense(2, 2),
        U=geq.operators.Dense(2, 2),
        penalty=geq.penalties.Box(-1.0, 1.0),
    )
    with torch.no_grad():
        problem.W.raw_weight.copy_(torch.eye(2))
        problem.U.raw_weight.copy_(0.01 * torch.eye(2))
    layer = geq.Equilibrium(problem).double().eval()
    found = equilibria(layer, torch.full((1, 2), 0.1, dtype=torch.float64))
    assert max(float((z - found[0]).norm()) for z in found) > 1
