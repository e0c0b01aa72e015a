"""Theorem 1: the layer is a prox and its fixed point a minimiser, by minimisers that know nothing of it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy
import pytest
import torch
from hypothesis import given, settings
from scipy.optimize import minimize
from torch import Tensor

from geq.errors import OptionError
from geq.penalties import ActivationPenalty, NonNegative, Penalty
from geq_papers.theorem import Composition, Unit, check_theorem_1, objective, relu_objective
from theorem_units import ACTIVATIONS, make_unit, normal, units


def minimise(unit: Unit, function: Callable[[Tensor], float]) -> Tensor:
    """Over y = Wᵀp by L-BFGS-B with numerical differences; bounds keep p where φ is finite."""
    edge = 0.9999 / unit.scale
    low, high = {"NonNegative": (0, None), "TanhPenalty": (-edge, edge)}.get(
        type(unit.activation).__name__, (None, None)
    )
    found = minimize(
        lambda p: function(unit.weight.T @ torch.from_numpy(p)),
        numpy.full(2, 0.1),
        method="L-BFGS-B",
        bounds=[(low, high)] * 2,
        options={"ftol": 1e-15, "gtol": 1e-8},
    )
    return unit.weight.T @ torch.from_numpy(found.x)


@pytest.mark.parametrize("penalty", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_the_layer_minimises_phi_plus_a_square(penalty: Penalty) -> None:
    """prox_φ(z), from numerical values of φ."""
    unit = make_unit(3, 2, 2, penalty, scale=1.3)
    z = normal(4, 2)
    found = minimise(unit, lambda y: objective(unit, y) + 0.5 * (y - z).square().sum().item())
    torch.testing.assert_close(found, unit(z), rtol=0, atol=1e-5)


@pytest.mark.parametrize("penalty", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_the_equilibrium_minimises_phi(penalty: Penalty) -> None:
    unit = make_unit(6, 2, 2, penalty, 0.6)
    found = minimise(unit, lambda y: objective(unit, y))
    torch.testing.assert_close(found, Composition((unit,), 1.0).equilibrium(), rtol=0, atol=1e-5)


def test_relu_is_a_quadratic_program() -> None:
    """The equilibrium by L-BFGS-B on eq. 4 over p ≥ 0, in four dimensions."""
    unit = make_unit(9, 4, 4, NonNegative(), 0.8)

    def program(p: numpy.ndarray) -> float:
        return relu_objective(unit, unit.weight.T @ torch.from_numpy(p))

    found = minimize(
        program, numpy.ones(4), method="L-BFGS-B", bounds=[(0, None)] * 4, options={"ftol": 1e-16}
    )
    expected = Composition((unit,), 1.0).equilibrium()
    torch.testing.assert_close(unit.weight.T @ torch.from_numpy(found.x), expected, rtol=0, atol=1e-4)


@settings(max_examples=12, deadline=None)
@given(units())
def test_the_check_holds(unit: Unit) -> None:
    check = check_theorem_1(unit, points=1)
    assert check.holds, check.verdict


def test_the_check_holds_for_an_activation_of_ones_own() -> None:
    check = check_theorem_1(make_unit(1, 3, 2, ActivationPenalty(torch.atan)), points=1)
    assert check.holds, check.verdict


def test_at_the_edge_of_the_condition_without_a_fixed_point() -> None:
    """relu(z + 1) is the prox of a φ without a minimum, −y for y ≥ 0. The check leaves that part out."""
    unit = Unit(torch.eye(1).double(), torch.ones(1).double(), NonNegative())
    check = check_theorem_1(unit, points=1)
    assert check.holds, check.verdict
    assert "φ at the equilibrium against φ elsewhere" not in [c.what for c in check.comparisons]
    assert objective(unit, torch.tensor([3.0]).double()) == pytest.approx(-3)


def test_the_condition_is_refused_when_violated() -> None:
    with pytest.raises(OptionError, match=r"needs μ ≥ L_σ‖W‖² = 1.44: got μ = 1; raise scale"):
        check_theorem_1(make_unit(0, 3, 3, NonNegative(), 1.2))
    weight = make_unit(0, 3, 3, NonNegative(), 1.2).weight
    assert check_theorem_1(Unit(weight, torch.ones(3).double(), NonNegative(), 1.45), points=1).holds


def test_the_condition_is_needed() -> None:
    """‖W‖² = 4 > μ = 1: f(z) = 2relu(2z) is 4-Lipschitz, so no prox, and φ(y) = y²/8 − y²/2 is concave."""
    unit = Unit(2 * torch.eye(1).double(), torch.zeros(1).double(), NonNegative())
    for y in (0.0, 0.5, 2.0):
        assert objective(unit, torch.tensor([y]).double()) == pytest.approx(-0.375 * y**2)
    assert objective(unit, torch.tensor([-1.0]).double()) == math.inf


def test_the_check_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that is not the prox: f of twice the bias, with the φ of the bias."""
    unit = make_unit(3, 3, 3, NonNegative())
    wrong = Unit(unit.weight, 2 * unit.bias, unit.activation)
    monkeypatch.setattr("geq_papers.theorem.theorem_1.objective", lambda _, y: objective(wrong, y))
    check = check_theorem_1(unit)
    assert not check.holds
    assert "theorem 1 fails: f(z) against every other minimiser" in check.verdict
