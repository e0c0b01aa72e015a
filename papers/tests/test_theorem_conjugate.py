"""φ = ψ* − ½‖·‖²: the numerical conjugate against closed forms and SciPy's solvers."""

from __future__ import annotations

import math

import numpy
import pytest
import torch
from hypothesis import assume, given, settings
from scipy.optimize import lsq_linear, minimize
from torch import Tensor

from geq.errors import InputError, OptionError
from geq.penalties import Box, LeakyPenalty, NonNegative, TanhPenalty
from geq_papers.theorem import Composition, Unit, conjugate, objective, relu_objective
from theorem_units import ACTIVATIONS, SEEDS, make_unit, normal, units

RANGES = {"NonNegative": (0.0, math.inf), "LeakyPenalty": (-math.inf, math.inf), "TanhPenalty": (-1.0, 1.0)}


def distance_from_domain(unit: Unit, y: Tensor) -> float:
    """dom ψ* = {Wᵀp: μp in the range of σ}, by SciPy's bounded least squares."""
    low, high = (limit / unit.scale for limit in RANGES[type(unit.activation).__name__])
    found = lsq_linear(unit.weight.T.numpy(), y.numpy(), (low, high), method="bvls", tol=1e-15)
    return float((2 * found.cost) ** 0.5)


@settings(max_examples=25, deadline=None)
@given(units(), SEEDS)
def test_conjugate_is_exact_at_images(unit: Unit, seed: int) -> None:
    """Fenchel and Young: ψ*(f(v)) = ⟨f(v), v⟩ − ψ(v)."""
    v = 3 * normal(seed, unit.weight.shape[1])
    y = unit(v)
    found = conjugate(unit, y)
    assert found.value == pytest.approx((y @ v).item() - unit.potential(v), abs=1e-9)
    assert found.gradient_norm < 1e-9
    assert abs(found.gap) < 1e-9
    assert objective(unit, y) == pytest.approx(unit.at_image(v), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(units(), SEEDS)
def test_outside_of_the_domain_it_is_infinite_and_tells_the_distance(unit: Unit, seed: int) -> None:
    y = normal(seed, unit.weight.shape[1])
    sizes = torch.linalg.svdvals(unit.weight)
    # A direction that is nearly lost takes the maximiser to 1e9, where double precision ends.
    assume(bool((sizes[sizes > 1e-9 * sizes[0]] > 1e-3 * sizes[0]).all()))
    distance = distance_from_domain(unit, y)
    assume(distance > 1e-5 or distance < 1e-12)
    found = conjugate(unit, y)
    if distance > 1e-5:
        assert found.value == math.inf
        assert found.gap == math.inf
        assert found.gradient_norm == pytest.approx(distance, rel=1e-3)
    else:
        assert math.isfinite(found.value)
        assert found.gradient_norm < 1e-7


@pytest.mark.parametrize("penalty", ACTIVATIONS.values(), ids=ACTIVATIONS)
@pytest.mark.parametrize(("features", "state"), [(2, 2), (4, 2), (2, 4), (1, 3)])
def test_conjugate_against_a_convex_solver_for_the_dual(
    penalty: NonNegative | LeakyPenalty | TanhPenalty, features: int, state: int
) -> None:
    """ψ*(y) = min (1/μ)1ᵀσ̃*(μp) − ⟨a, p⟩ subject to Wᵀp = y, by SLSQP."""
    unit = make_unit(7, features, state, penalty, scale=1.5)
    y = unit(normal(8, state))
    low, high = (limit / unit.scale for limit in RANGES[type(penalty).__name__])
    edge = 1e-9 * (high - low) if math.isfinite(high - low) else 0.0
    # Independent constraints: the rows of Wᵀ that matter, by its singular vectors.
    left, sizes, right = torch.linalg.svd(unit.weight.T, full_matrices=False)
    rank = int((sizes > 1e-10).sum())
    matrix = (sizes[:rank, None] * right[:rank]).numpy()
    target = (left[:, :rank].T @ y).numpy()

    def dual(p: numpy.ndarray) -> float:
        return unit.dual(torch.from_numpy(p).clamp(low, high))

    start = torch.from_numpy(numpy.linalg.lstsq(matrix, target, rcond=None)[0]).clamp(low + edge, high - edge)
    found = minimize(
        dual,
        start.numpy(),
        method="SLSQP",
        bounds=[(low + edge, high - edge)] * features,
        constraints={"type": "eq", "fun": lambda p: matrix @ p - target, "jac": lambda p: matrix},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert conjugate(unit, y).value == pytest.approx(found.fun, abs=1e-5)


@settings(max_examples=15, deadline=None)
@given(units(square=True, penalty=NonNegative()), SEEDS)
def test_closed_form_of_relu(unit: Unit, seed: int) -> None:
    """Eq. 4, inside of the domain and outside of it."""
    assume(torch.linalg.cond(unit.weight).item() < 1e3)
    p = normal(seed, unit.weight.shape[1])
    assume(p.abs().min().item() > 1e-2)
    for q in (p.abs(), p.relu(), p):
        y = unit.weight.T @ q
        closed = relu_objective(unit, y)
        assert math.isinf(closed) == bool((q < 0).any())
        assert objective(unit, y) == pytest.approx(closed, abs=1e-8)


def test_erratum_of_eq_4_at_features_that_are_off() -> None:
    """With σ̃*(0) = ∞, as printed, φ would be infinite at the equilibrium of any net with a silent feature."""
    unit = Unit(torch.eye(2).double() / 2, torch.tensor([1.0, -1.0]).double(), NonNegative())
    z = Composition((unit,), 1.0).equilibrium()
    p = torch.linalg.solve(unit.weight.T, z)
    assert p[1] == 0  # the printed σ̃* is infinite here
    assert p[0] == pytest.approx(4 / 3)
    # ½p² − p − ½(p/2)² at p = 4/3
    assert relu_objective(unit, z) == pytest.approx(-2 / 3)
    assert objective(unit, z) == pytest.approx(-2 / 3)


def test_edge_of_the_domain_where_no_maximiser_exists() -> None:
    """tanh: ψ*(y) = ½(1 + y)log(1 + y) + ½(1 − y)log(1 − y), which is log 2 at y = 1 and ∞ beyond."""
    unit = Unit(torch.eye(1).double(), torch.zeros(1).double(), TanhPenalty())
    found = conjugate(unit, torch.ones(1).double())
    assert found.value == pytest.approx(math.log(2), abs=1e-9)
    beyond = conjugate(unit, torch.full((1,), 1.001).double())
    assert beyond.value == math.inf
    assert beyond.gradient_norm == pytest.approx(0.001, rel=1e-3)


def test_a_nearly_singular_weight_is_not_taken_for_a_domain_that_ended() -> None:
    """Here the residual rests at 1e-4 for four proximal steps before the second feature wakes up."""
    weight = torch.tensor([[0.3116, -0.0193], [0.6390, -0.0375]]).double()
    unit = Unit(weight, torch.tensor([0.7978, -0.2871]).double(), NonNegative())
    y = weight.T @ torch.tensor([0.69, 0.048]).double()
    assert objective(unit, y) == pytest.approx(relu_objective(unit, y), abs=1e-10)


def test_gap_is_an_upper_bound_of_the_error() -> None:
    """A conjugate that was stopped early is low by no more than its gap says."""
    unit = make_unit(2, 4, 3, LeakyPenalty(0.1))
    y = unit(normal(3, 3))
    exact, rough = conjugate(unit, y).value, conjugate(unit, y, tol=0.1)
    assert rough.gradient_norm > 1e-3
    assert 0 < exact - rough.value <= rough.gap


@pytest.mark.parametrize("y", [torch.zeros(2).double(), torch.zeros(3), torch.full((3,), torch.nan).double()])
def test_points_that_are_none(y: Tensor) -> None:
    with pytest.raises(InputError, match="y must be a finite vector of 3 entries in float64"):
        conjugate(make_unit(0, 2, 3, NonNegative()), y)


def test_closed_form_says_when_there_is_none() -> None:
    y = torch.zeros(2).double()
    with pytest.raises(OptionError, match=r"eq. 4 is for ReLU: got Box"):
        relu_objective(make_unit(0, 2, 2, Box(0.0, 1.0)), y)
    with pytest.raises(OptionError, match="needs an invertible weight: got 3 × 2;"):
        relu_objective(make_unit(0, 3, 2, NonNegative()), y)
    with pytest.raises(OptionError, match="got 2 × 2, singular"):
        relu_objective(Unit(torch.ones(2, 2).double(), y, NonNegative(), 4.0), y)
