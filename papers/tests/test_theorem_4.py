"""Theorem 4: a gradient step before the layer adds γR to φ, and a prox before it does not."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from geq.errors import OptionError
from geq.penalties import NonNegative, TanhPenalty
from geq_papers.theorem import Unit, check_theorem_4, objective, regularised_equilibrium, relu_objective
from geq_papers.theorem.theorem_4 import slope_of
from theorem_units import make_unit, normal, units

REGULARISERS = {
    "decay": lambda z: 0.5 * z.square().sum(),
    "towards 1": lambda z: (1 + (z - 1).square()).sqrt().sum(),
    "log-sum-exp": lambda z: z.logsumexp(0),
}


@settings(max_examples=10, deadline=None)
@given(units(), st.sampled_from(sorted(REGULARISERS)), st.sampled_from([0.1, 1.0]))
def test_the_check_holds(unit: Unit, name: str, gamma: float) -> None:
    check = check_theorem_4(unit, REGULARISERS[name], gamma, points=1)
    assert check.holds, check.verdict


def test_relu_and_decay_against_a_convex_solver() -> None:
    unit, gamma = make_unit(2, 3, 3, NonNegative(), 0.8), 0.4

    def total(p: object) -> float:
        y = unit.weight.T @ torch.tensor(p, dtype=torch.float64)
        return relu_objective(unit, y) + gamma * REGULARISERS["decay"](y).item()

    found = minimize(total, [1.0] * 3, method="L-BFGS-B", bounds=[(0, None)] * 3, options={"ftol": 1e-16})
    expected = unit.weight.T @ torch.from_numpy(found.x)
    z = regularised_equilibrium(unit, REGULARISERS["decay"], gamma)
    torch.testing.assert_close(z, expected, rtol=0, atol=1e-4)


def test_erratum_a_prox_before_the_layer_adds_the_envelope() -> None:
    """The remark lets prox_{γR} stand for I − γ∇R. With R = ½‖·‖² and γ = 1 it halves the state: the fixed
    point z = f(z/2) minimises φ + ¼‖·‖², the Moreau envelope, not φ + ½‖·‖².
    """
    unit, gamma = make_unit(3, 3, 3, TanhPenalty()), 1.0
    z = normal(0, 3)
    for _ in range(300):
        z = unit(z / (1 + gamma))
    decay, half = REGULARISERS["decay"], lambda y: 0.25 * y.square().sum()
    torch.testing.assert_close(z, regularised_equilibrium(unit, half, gamma), rtol=0, atol=1e-9)
    right = regularised_equilibrium(unit, decay, gamma)
    assert (z - right).norm() > 0.05

    def total(y: torch.Tensor) -> float:
        return objective(unit, y) + gamma * decay(y).item()

    assert total(z) > total(right) + 1e-3


def test_slope_is_the_gradient() -> None:
    z = normal(1, 4)
    torch.testing.assert_close(slope_of(REGULARISERS["decay"], z), z)
    torch.testing.assert_close(slope_of(REGULARISERS["log-sum-exp"], z), z.softmax(0))


def test_refusals() -> None:
    with pytest.raises(OptionError, match=r"gamma must be above 0: got -1.0"):
        regularised_equilibrium(make_unit(0, 2, 2, NonNegative()), REGULARISERS["decay"], -1.0)
    with pytest.raises(OptionError, match="theorem 1 needs μ"):
        check_theorem_4(make_unit(0, 2, 2, NonNegative(), 1.3), REGULARISERS["decay"], 0.1)
