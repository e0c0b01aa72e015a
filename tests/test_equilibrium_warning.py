"""By default a layer whose solves fail says so once in training and once in evaluation (decision 17)."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import Tensor

import geq


class Repelling(geq.kernels.Kernel):
    """S = ‖u‖³, whose objective is not bounded below: iterates run away from a start that is not 0."""

    def value(self, u: Tensor, v: Tensor) -> Tensor:
        return u.square().flatten(1).sum(1) ** 1.5 + (u * v).flatten(1).sum(1)


def repelling(**options: object) -> tuple[geq.Equilibrium, Tensor]:
    torch.manual_seed(0)
    W = geq.operators.Dense(12, 24, constraint=geq.constraints.Unconstrained())
    problem = geq.EnergyProblem(Repelling(), W=W, U=geq.operators.Dense(7, 24))
    return geq.Equilibrium(problem, **options), torch.randn(4, 7)  # type: ignore[arg-type]


def heard(layer: geq.Equilibrium, x: Tensor) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        layer(x)
    return found


def test_a_fresh_module_in_training_is_not_silent() -> None:
    layer, x = repelling()
    assert layer.training
    (warning,) = heard(layer, x)
    assert warning.category is geq.ConvergenceWarning
    assert "of 4 samples did not get there" in str(warning.message)
    assert layer.last_solution is not None
    assert layer.last_solution.status is not geq.Status.CONVERGED


def test_it_is_said_once_in_each_mode() -> None:
    layer, x = repelling()
    counts = [len(heard(layer, x)) for _ in range(3)]
    layer.eval()
    counts += [len(heard(layer, x)) for _ in range(3)]
    layer.train()
    counts += [len(heard(layer, x))]
    assert counts == [1, 0, 0, 1, 0, 0, 0]


def test_each_layer_warns_for_itself() -> None:
    layer, x = repelling()
    fresh = copy.deepcopy(layer)
    assert len(heard(layer, x)) == 1
    assert len(heard(fresh, x)) == 1
    assert not heard(copy.deepcopy(layer), x), "a copy remembers"


def test_solves_that_succeed_use_up_no_warning() -> None:
    layer, x = repelling()
    layer.max_steps = 1000
    easy = 1e-6 * x
    with torch.no_grad():
        layer.cell.W.raw_weight.mul_(0.1)  # type: ignore[union-attr]
    assert not heard(layer, easy)
    layer.max_steps, layer.tol = 1, 1e-12
    assert len(heard(layer, x)) == 1


def test_a_filter_or_an_option_makes_an_error_of_it_every_time() -> None:
    layer, x = repelling()
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error", geq.ConvergenceWarning)
            with pytest.raises(geq.ConvergenceWarning):
                layer(x)
    layer, x = repelling(on_failure="raise")
    for mode in (True, False):
        for _ in range(2):
            with pytest.raises(geq.ConvergenceError):
                layer.train(mode)(x)


def test_one_sample_just_above_the_tolerance_does_not_end_a_validation() -> None:
    """One of 250 at a residual above 1e-3: the others are exact, and it is nearly so."""
    torch.manual_seed(0)
    rates = torch.full((250, 1), 0.2, dtype=torch.float64)
    rates[17] = 0.97

    layer = geq.Equilibrium(
        lambda z, c: c[:, :1] * z + 1 + 0 * c, solver=geq.solvers.Picard(), tol=1e-3, max_steps=100
    ).eval()
    (warning,) = heard(layer, rates)
    assert "1 of 250 samples" in str(warning.message)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        z = layer(rates)
    torch.testing.assert_close(z, 1 / (1 - rates), rtol=0.06, atol=0)
    assert layer.last_solution is not None
    assert layer.last_solution.converged.sum() == 249
    assert 1e-3 < float(layer.last_solution.residual.max()) < 2e-3
