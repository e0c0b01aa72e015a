"""Table 1: skip connection, change of variable with its correction, matrix activation."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from geq.errors import InputError, OptionError
from geq.penalties import NonNegative, Penalty, TanhPenalty
from geq_papers.theorem import (
    ChangedVariable,
    Composition,
    Unit,
    check_change_of_variable,
    check_multivariate_activation,
    check_skip_connection,
    envelope,
    multivariate_objective,
    skip_gradient,
    skip_objective,
)
from geq_papers.theorem.envelope import prox_violation
from theorem_units import ACTIVATIONS, ALPHAS, SEEDS, make_unit, normal, units


@settings(max_examples=15, deadline=None)
@given(units(), ALPHAS)
def test_skip_connection(unit: Unit, alpha: float) -> None:
    check = check_skip_connection(unit, alpha, points=1)
    assert check.holds, check.verdict


@pytest.mark.parametrize("penalty", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_skip_connection_by_a_smooth_minimiser(penalty: Penalty) -> None:
    """αM_φ^{1−α}(y) + ½‖y − z‖² minimised by BFGS: its minimiser is the layer with the skip."""
    unit, alpha = make_unit(2, 4, 3, penalty), 0.7
    z = normal(3, 3)

    def total(y: object) -> tuple[float, object]:
        point = torch.tensor(y, dtype=torch.float64)
        value = skip_objective(unit, alpha, point) + 0.5 * (point - z).square().sum().item()
        return value, (skip_gradient(unit, alpha, point) + point - z).numpy()

    found = minimize(total, z.numpy(), jac=True, method="BFGS", options={"gtol": 1e-9})
    torch.testing.assert_close(torch.from_numpy(found.x), Composition((unit,), alpha)(z), rtol=0, atol=1e-7)


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 1.5])
def test_alpha_out_of_range(alpha: float) -> None:
    unit, y = make_unit(0, 2, 2, NonNegative()), torch.zeros(2).double()
    with pytest.raises(OptionError, match=r"alpha must be in \(0, 1\]"):
        skip_objective(unit, alpha, y)
    with pytest.raises(OptionError, match=r"alpha must be in \(0, 1\]"):
        check_skip_connection(unit, alpha)
    with pytest.raises(OptionError, match=r"alpha must be in \(0, 1\)"):
        skip_gradient(unit, 1.0, y)


def rotation(angle: float) -> torch.Tensor:
    c, s = math.cos(angle), math.sin(angle)
    return torch.tensor([[c, -s], [s, c]], dtype=torch.float64)


@settings(max_examples=10, deadline=None)
@given(SEEDS, st.floats(0, 6), st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from(sorted(ACTIVATIONS)))
def test_rotation_scaling_and_translation(seed: int, angle: float, scale: float, name: str) -> None:
    unit = make_unit(seed, 2, 2, ACTIVATIONS[name])
    changed = ChangedVariable(unit, scale * rotation(angle), normal(seed + 1, 2))
    assert changed.squared_scale == pytest.approx(scale**2)
    check = check_change_of_variable(changed, points=1)
    assert check.holds, check.verdict
    assert len(check.comparisons) == 3


def test_erratum_a_scaling_changes_the_step() -> None:
    """As printed, A⁻¹fA with A = 2 would be the prox of φ(2·). It is that of φ(2·)/4."""
    unit = make_unit(1, 2, 2, TanhPenalty())
    changed = ChangedVariable(unit, 2 * torch.eye(2).double(), torch.zeros(2).double())
    z = normal(2, 2)
    others = [unit(row) / 2 for row in normal(3, 5, 2)]
    assert prox_violation(lambda y: changed.objective(y) / 4, z, changed(z), others) < 1e-10
    assert prox_violation(changed.objective, z, changed(z), others) > 1e-4
    printed = envelope(unit, 2 * z, 4.0).minimiser / 2  # A⁻¹∘prox_{s²φ}∘A
    assert prox_violation(changed.objective, z, printed, others) < 1e-10
    assert (printed - changed(z)).norm() > 5e-3


def test_a_change_that_is_no_isometry_gives_no_prox_but_the_same_minimisers() -> None:
    unit = make_unit(1, 2, 2, TanhPenalty())
    changed = ChangedVariable(unit, torch.tensor([[1.0, 2.0], [0.0, 1.0]]).double(), torch.ones(2).double())
    assert changed.squared_scale is None
    jacobian = changed.jacobian(normal(2, 2))
    torch.testing.assert_close(jacobian, torch.autograd.functional.jacobian(changed, normal(2, 2)))
    assert (jacobian - jacobian.T).abs().max() > 1e-2  # that of a prox is symmetric
    check = check_change_of_variable(changed)
    assert check.holds, check.verdict
    assert [c.what for c in check.comparisons] == [
        "A⁻¹z* as fixed point of A⁻¹fA",
        "φ∘A there against φ∘A elsewhere",
    ]


def test_singular_changes_are_refused() -> None:
    with pytest.raises(InputError, match="must be invertible"):
        ChangedVariable(make_unit(0, 2, 2, NonNegative()), torch.ones(2, 2).double(), torch.zeros(2).double())


def symmetric(*eigenvalues: float) -> torch.Tensor:
    basis = torch.linalg.qr(normal(0, len(eigenvalues), len(eigenvalues))).Q
    return basis @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ basis.T


def test_matrix_in_place_of_the_activation() -> None:
    unit = make_unit(5, 3, 3, NonNegative())
    mixing = symmetric(0.2, 0.5, 1.0)
    check = check_multivariate_activation(unit.weight, mixing, unit.bias)
    assert check.holds, check.verdict
    # The gradient of φ + ½‖· − z‖² at the layer's output, by autograd of the formula written out.
    z = normal(6, 3)
    u = (unit.weight.T @ mixing @ (unit.weight @ z + unit.bias)).requires_grad_()
    p = torch.linalg.solve(unit.weight.T, u)
    value = 0.5 * p @ torch.linalg.inv(mixing) @ p - unit.bias @ p - 0.5 * u @ u
    assert value.item() == pytest.approx(multivariate_objective(unit.weight, mixing, unit.bias, u.detach()))
    (gradient,) = torch.autograd.grad(value + 0.5 * (u - z).square().sum(), u)
    torch.testing.assert_close(gradient, torch.zeros_like(z), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("mixing", "norm", "told"),
    [
        (symmetric(0.0, 0.5, 1.0), 0.9, r"eigenvalues in \(0, 1\]"),
        (symmetric(0.1, 0.5, 1.5), 0.9, r"got eigenvalues 0.1 to 1.5"),
        (symmetric(0.1, 0.5, 1.0) + torch.triu(torch.ones(3, 3), 1), 0.9, "asymmetry 1"),
        (symmetric(0.1, 0.5, 1.0), 1.1, r"‖W‖ must be at most 1: got 1.1"),
    ],
)
def test_matrices_that_are_no_activation(mixing: torch.Tensor, norm: float, told: str) -> None:
    unit = make_unit(5, 3, 3, NonNegative(), norm)
    with pytest.raises(OptionError, match=told):
        check_multivariate_activation(unit.weight, mixing, unit.bias)
