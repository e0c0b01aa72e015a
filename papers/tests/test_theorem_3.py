"""Theorem 3: the limit α → 0, its rate and the problem that the limit solves."""

from __future__ import annotations

import itertools

import numpy
import pytest
import torch
from hypothesis import given, settings
from scipy.optimize import minimize

from geq.errors import OptionError
from geq.penalties import LeakyPenalty, NonNegative, Penalty
from geq_papers.theorem import (
    Approach,
    Composition,
    Unit,
    approach,
    check_theorem_3,
    fitted_order,
    wide_unit,
)
from geq_papers.theorem.theorem_3 import joint_objective
from theorem_units import ACTIVATIONS, deep_units, make_unit, normal


def three(penalty: Penalty) -> tuple[Unit, ...]:
    return tuple(make_unit(s, 3 + s, 3, penalty, 0.9 - 0.1 * s) for s in range(3))


@settings(max_examples=10, deadline=None)
@given(deep_units(3))
def test_the_check_holds(units: tuple[Unit, ...]) -> None:
    check = check_theorem_3(units, points=1)
    assert check.holds, check.verdict


@pytest.mark.parametrize("penalty", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_the_distance_falls_linearly_and_stays_below_its_bound(penalty: Penalty) -> None:
    found = approach(three(penalty))
    assert fitted_order(found) == pytest.approx(1, abs=0.1)
    for one in found:
        assert 0 < one.spread <= 2 * one.distance
        assert one.distance <= one.bound
    for larger, smaller in itertools.pairwise(found):
        assert smaller.distance == pytest.approx(larger.distance / 10, rel=0.5)
    assert found[-1].distance < 1e-3


def test_the_limit_is_the_wide_layer() -> None:
    units = three(NonNegative())
    wide = wide_unit(units)
    z = normal(0, 3)
    torch.testing.assert_close(3 * wide(z), sum(unit(z) for unit in units))
    wide.require_proximal()
    y = Composition((wide,), 1.0).equilibrium()
    torch.testing.assert_close(Composition(units, 1e-7).equilibrium(), y, rtol=0, atol=1e-5)


def test_the_limit_by_a_convex_solver() -> None:
    """Σφ_i(x_i) + ½‖x_i − y‖² with x_i = W_iᵀp_i, p_i ≥ 0, minimised by L-BFGS-B for two units."""
    units = tuple(make_unit(s, 2, 2, NonNegative(), 0.7) for s in (3, 4))

    def function(flat: numpy.ndarray) -> float:
        parts = torch.from_numpy(flat).view(3, 2)
        rows = [unit.weight.T @ p for unit, p in zip(units, parts[:2], strict=True)]
        return joint_objective(units, torch.stack([*rows, parts[2]]))

    bounds = [(0, None)] * 4 + [(None, None)] * 2
    found = minimize(function, numpy.ones(6), method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15})
    y = Composition((wide_unit(units),), 1.0).equilibrium()
    torch.testing.assert_close(torch.from_numpy(found.x[4:]), y, rtol=0, atol=1e-4)


def test_one_layer_does_not_depend_on_alpha() -> None:
    units = three(NonNegative())[:1]
    assert fitted_order(approach(units)) == float("inf")
    assert check_theorem_3(units, points=1).holds


def test_the_order_is_measured() -> None:
    def curve(power: float) -> list[Approach]:
        return [Approach(a, 3 * a**power, 0.0, 0.0) for a in (0.1, 0.01, 0.001)]

    assert fitted_order(curve(1.0)) == pytest.approx(1)
    assert fitted_order(curve(0.5)) == pytest.approx(0.5)


def test_refusals() -> None:
    with pytest.raises(OptionError, match="one activation and one scale"):
        wide_unit((make_unit(0, 2, 2, NonNegative()), make_unit(0, 2, 2, LeakyPenalty(0.1))))
    with pytest.raises(OptionError, match="one activation and one scale"):
        wide_unit((make_unit(0, 2, 2, LeakyPenalty(0.2)), make_unit(0, 2, 2, LeakyPenalty(0.1))))
    with pytest.raises(OptionError, match="theorem 3 needs one ‖W_i‖² < μ"):
        approach([make_unit(s, 2, 2, ACTIVATIONS["tanh"], 1.0) for s in (0, 1)])
    with pytest.raises(OptionError, match="theorem 1 needs μ"):
        approach([make_unit(s, 2, 2, ACTIVATIONS["tanh"], norm) for s, norm in ((0, 1.2), (1, 0.5))])
    with pytest.raises(OptionError, match="alpha must be in"):
        approach(three(NonNegative()), alphas=(2.0,))
