"""The unit layer: a gradient, its Jacobian, and the equation that every resolvent solves."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from geq.errors import ConvergenceError, InputError, OptionError
from geq.penalties import NonNegative, TanhPenalty
from geq_papers.theorem import Composition, Unit
from theorem_units import SEEDS, make_unit, normal, units


@settings(max_examples=10, deadline=None)
@given(units(), SEEDS)
def test_the_layer_is_the_gradient_of_its_potential(unit: Unit, seed: int) -> None:
    z = normal(seed, unit.weight.shape[1])
    step = 1e-6
    slopes = [
        (unit.potential(z + step * d) - unit.potential(z - step * d)) / (2 * step)
        for d in torch.eye(len(z), dtype=torch.float64)
    ]
    torch.testing.assert_close(torch.tensor(slopes).double(), unit(z), rtol=1e-6, atol=1e-6)


@settings(max_examples=10, deadline=None)
@given(units(), SEEDS)
def test_jacobian_is_that_of_autograd(unit: Unit, seed: int) -> None:
    z = normal(seed, unit.weight.shape[1])
    torch.testing.assert_close(unit.jacobian(z), torch.autograd.functional.jacobian(unit, z))


@settings(max_examples=20, deadline=None)
@given(units(), st.sampled_from([-0.9, 0.0, 0.3, 5.0, 1e6]), SEEDS)
def test_newton_solves_the_equation_of_resolvents(unit: Unit, factor: float, seed: int) -> None:
    target = normal(seed, unit.weight.shape[1])
    v = unit.solve(factor, target, torch.zeros_like(target))
    error = (v + factor * unit(v) - target).norm()
    assert error <= 1e-11 * (1 + abs(factor)) * (1 + v.norm())


def test_newton_that_may_not_go_on_says_where_it_stopped() -> None:
    unit = make_unit(3, 3, 3, TanhPenalty())
    with pytest.raises(ConvergenceError, match="did not reach 1e-13 in 1 steps"):
        unit.solve(10.0, 10 * normal(0, 3), normal(1, 3), max_steps=1)


def test_a_batch_is_mapped_row_by_row() -> None:
    unit = make_unit(0, 2, 3, NonNegative())
    z = normal(1, 4, 3)
    torch.testing.assert_close(unit(z), torch.stack([unit(row) for row in z]))


@pytest.mark.parametrize(
    ("weight", "bias", "scale", "error", "told"),
    [
        (torch.eye(2), torch.zeros(2).double(), 1.0, InputError, "weight must be finite and in float64"),
        (torch.eye(2).double(), torch.zeros(2), 1.0, InputError, "bias must be finite and in float64"),
        (torch.full((2, 2), torch.nan).double(), torch.zeros(2).double(), 1.0, InputError, "finite"),
        (torch.eye(2).double(), torch.zeros(3).double(), 1.0, InputError, "one entry per row of weight, 2"),
        (torch.eye(2).double(), torch.zeros(2).double(), 0.0, OptionError, "above 0: got 0.0"),
        (torch.eye(2).double(), torch.zeros(2).double(), torch.inf, OptionError, "above 0: got inf"),
    ],
)
def test_units_that_cannot_be(
    weight: torch.Tensor, bias: torch.Tensor, scale: float, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        Unit(weight, bias, NonNegative(), scale)


@pytest.mark.parametrize("alpha", [-0.1, 0.0, 1.1, torch.nan])
def test_alpha_out_of_range(alpha: float) -> None:
    with pytest.raises(OptionError, match=r"alpha must be in \(0, 1\]"):
        Composition((make_unit(0, 2, 2, NonNegative()),), alpha)


def test_compositions_that_cannot_be() -> None:
    with pytest.raises(OptionError, match="at least one unit"):
        Composition((), 0.5)
    with pytest.raises(OptionError, match=r"same state: got states of \[2, 3\] entries"):
        Composition((make_unit(0, 2, 2, NonNegative()), make_unit(0, 2, 3, NonNegative())), 0.5)


def test_no_equilibrium_is_an_error() -> None:
    """z = relu(z + 1) has no solution: ‖W‖ = 1 is within the condition, and φ is unbounded below."""
    unit = Unit(torch.eye(1).double(), torch.ones(1).double(), NonNegative())
    unit.require_proximal()
    with pytest.raises(ConvergenceError, match="no equilibrium was found"):
        Composition((unit,), 0.5).equilibrium()


@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 0.5, 1.0])
def test_equilibria_do_not_slow_down_with_alpha(alpha: float) -> None:
    deep = Composition(tuple(make_unit(s, 4, 3, NonNegative(), 0.95) for s in range(3)), alpha)
    z = deep.equilibrium()
    torch.testing.assert_close(deep.drift(z), torch.zeros_like(z), rtol=0, atol=1e-11)
    torch.testing.assert_close(alpha * deep.drift(z + 1), deep(z + 1) - (z + 1))
    torch.testing.assert_close(
        deep.drift_jacobian(z + 1), torch.autograd.functional.jacobian(deep.drift, z + 1)
    )
