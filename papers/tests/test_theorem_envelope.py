"""The Moreau envelope of φ against a direct minimisation, and its gradient against finite differences."""

from __future__ import annotations

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from geq.errors import OptionError
from geq.penalties import NonNegative
from geq_papers.theorem import Unit, envelope, objective, relu_objective
from theorem_units import SEEDS, make_unit, normal, units

STEPS = st.sampled_from([0.05, 0.5, 1.0, 2.0, 20.0])


@pytest.mark.parametrize("step", [0.2, 1.0, 3.0])
def test_value_and_minimiser_against_a_quadratic_program(step: float) -> None:
    """ReLU and an invertible W: min over p ≥ 0 of φ(Wᵀp) + ‖Wᵀp − z‖²/2λ, by L-BFGS-B."""
    unit = make_unit(4, 3, 3, NonNegative(), 0.8)
    z = normal(5, 3)

    def total(p: numpy.ndarray) -> float:
        y = unit.weight.T @ torch.from_numpy(p)
        return relu_objective(unit, y) + (y - z).square().sum().item() / (2 * step)

    direct = minimize(
        total, numpy.ones(3), method="L-BFGS-B", bounds=[(0, None)] * 3, options={"ftol": 1e-15}
    )
    found = envelope(unit, z, step)
    assert found.value == pytest.approx(direct.fun, abs=1e-9)
    nearest = unit.weight.T @ torch.from_numpy(direct.x)
    torch.testing.assert_close(found.minimiser, nearest, rtol=0, atol=1e-4)


@settings(max_examples=20, deadline=None)
@given(units(), STEPS, SEEDS)
def test_value_is_that_of_the_numerical_conjugate_at_the_minimiser(
    unit: Unit, step: float, seed: int
) -> None:
    z = normal(seed, unit.weight.shape[1])
    found = envelope(unit, z, step)
    u = found.minimiser
    expected = objective(unit, u) + (u - z).square().sum().item() / (2 * step)
    assert found.value == pytest.approx(expected, abs=1e-8)


@settings(max_examples=10, deadline=None)
@given(units(), STEPS, SEEDS)
def test_gradient_by_finite_differences(unit: Unit, step: float, seed: int) -> None:
    z = normal(seed, unit.weight.shape[1])
    h = 1e-5
    slopes = [
        (envelope(unit, z + h * d, step).value - envelope(unit, z - h * d, step).value) / (2 * h)
        for d in torch.eye(len(z), dtype=torch.float64)
    ]
    torch.testing.assert_close(
        torch.tensor(slopes).double(), envelope(unit, z, step).gradient, rtol=1e-5, atol=1e-5
    )


def test_with_step_1_the_minimiser_is_the_layer() -> None:
    unit = make_unit(1, 4, 3, NonNegative())
    z = normal(2, 3)
    torch.testing.assert_close(envelope(unit, z, 1.0).minimiser, unit(z))


def test_it_approaches_the_function_from_below_as_the_step_falls() -> None:
    unit = make_unit(1, 3, 3, NonNegative())
    y = unit(normal(2, 3))
    values = [envelope(unit, y, step).value for step in (10.0, 1.0, 0.1, 0.01)]
    assert values == sorted(values)
    assert values[-1] == pytest.approx(objective(unit, y), abs=0.05)
    assert values[-1] <= objective(unit, y)


def test_refusals() -> None:
    z = torch.zeros(2).double()
    with pytest.raises(OptionError, match=r"must be above 0: got 0.0"):
        envelope(make_unit(0, 2, 2, NonNegative()), z, 0.0)
    with pytest.raises(OptionError, match=r"theorem 1 needs μ ≥ L_σ‖W‖² = 1.21: got μ = 1"):
        envelope(make_unit(0, 2, 2, NonNegative(), 1.1), z, 0.5)
