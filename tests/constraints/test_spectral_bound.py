"""Stored state of the operator-norm rule, and its updates."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

import geq
from energy_problems import matrix_of
from geq.constraints.spectral import SMALL_MATRIX, constraint_memory, restore_constraint_memory


def convolution(padding: str = "zeros", bound: float = 0.5) -> geq.operators.Convolution:
    torch.manual_seed(0)
    return geq.operators.Convolution(
        3, 4, padding=padding, constraint=geq.constraints.SpectralBound(bound)
    ).double()


def maps(side: int = 6) -> Tensor:
    return torch.randn(2, 3, side, side, dtype=torch.float64)


def exact_norm(operator: geq.operators.Operator, side: int = 6) -> float:
    copied = copy.deepcopy(operator).eval()
    weight = (
        operator.bind(maps(side)).weight.detach() if operator.training else copied.bind(maps(side)).weight
    )
    return torch.linalg.matrix_norm(
        matrix_of(lambda z: operator.apply_weight(weight, z), (3, side, side)), 2
    ).item()


def test_weights_below_the_bound_are_left_alone() -> None:
    operator = convolution(bound=1e3).eval()
    assert torch.equal(operator.bind(maps()).weight, operator.raw_weight)
    dense = geq.operators.Dense(3, 4, constraint=geq.constraints.SpectralBound(1e3))
    assert torch.equal(dense.weight, dense.raw_weight)


@pytest.mark.parametrize("padding", ["zeros", "circular"])
def test_training_follows_the_weights(padding: str) -> None:
    """One power iteration per solve keeps up with the steps of an optimiser."""
    operator = convolution(padding).train()
    operator(maps())
    for _ in range(60):
        with torch.no_grad():
            operator.raw_weight.add_(0.02 * torch.randn_like(operator.raw_weight))
        operator(maps())
    assert exact_norm(operator) == pytest.approx(0.5, rel=0.02)


def test_evaluation_changes_no_buffer_and_is_repeatable() -> None:
    operator, x = convolution().eval(), maps()
    first = operator(x)
    assert operator.constraint.followed is None
    assert torch.equal(operator(x), first)
    trained = convolution().train()
    trained(x)
    before = trained.constraint.followed
    trained.eval()(x)
    assert trained.constraint.followed is before


def test_evaluation_measures_once_per_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, x = convolution().eval(), maps()
    calls = []
    original = operator.apply_adjoint
    monkeypatch.setattr(operator, "apply_adjoint", lambda *a: (calls.append(1), original(*a))[1])
    operator(x)
    assert len(calls) > 1
    calls.clear()
    operator(x)
    assert not calls, "kept"
    for change in (
        lambda weight: weight.mul_(2.0),
        lambda weight: setattr(weight, "data", torch.randn_like(weight)),
    ):
        calls.clear()
        with torch.no_grad():
            change(operator.raw_weight)
        operator(x)
        assert len(calls) > 1, "measured anew"
        assert exact_norm(operator) == pytest.approx(0.5, rel=1e-3)


def test_another_size_is_measured_anew() -> None:
    operator = convolution("zeros").train()
    operator(maps(6))
    assert operator.constraint.followed.direction.shape == (1, 3, 6, 6)
    operator(maps(9))
    assert operator.constraint.followed.direction.shape == (1, 3, 9, 9)
    assert exact_norm(operator, 9) == pytest.approx(0.5, rel=1e-3)


def test_gradient_flows_through_the_norm() -> None:
    """The exact derivative of V/σ(V): against finite differences."""
    dense = geq.operators.Dense(4, 3, constraint=geq.constraints.SpectralBound(0.5)).double()
    conv = convolution().eval()
    for operator, z in [(dense, torch.randn(2, 4, dtype=torch.float64)), (conv, maps(4)[:1])]:
        weight = operator.raw_weight.detach().clone().requires_grad_()

        def value(weight: Tensor, operator: geq.operators.Operator = operator, z: Tensor = z) -> Tensor:
            return torch.func.functional_call(operator, {"raw_weight": weight}, (z,)).square().sum()

        assert torch.autograd.gradcheck(value, (weight,), fast_mode=True, atol=1e-4)


def test_large_matrices_use_power_iteration() -> None:
    """Beyond the size for which singular values are computed outright."""
    size = SMALL_MATRIX + 1
    torch.manual_seed(0)
    operator = geq.operators.Dense(size, size, constraint=geq.constraints.SpectralBound(0.7)).eval()
    with torch.no_grad():
        operator.raw_weight.copy_(torch.randn(size, 20) @ torch.randn(20, size))  # quick to measure exactly
    weight = operator.weight.detach()
    assert torch.linalg.matrix_norm(weight, 2).item() == pytest.approx(0.7, rel=1e-2)


def test_a_restored_memory_continues_exactly() -> None:
    """And without it a loaded state is measured anew: what was followed belongs to other weights."""
    trained, fresh, other = (convolution().train() for _ in range(3))
    trained(maps())
    with torch.no_grad():
        trained.raw_weight.add_(0.3)
    trained(maps())
    for loaded in (fresh, other):
        loaded.load_state_dict(trained.state_dict())
    restore_constraint_memory(fresh, constraint_memory(trained))
    x = maps()
    with torch.no_grad():
        for operator in (trained, fresh, other):
            operator.raw_weight.mul_(1.1)
    assert torch.equal(fresh(x), trained(x)), "a resumed run continues exactly"
    torch.testing.assert_close(other(x), trained(x), rtol=1e-2, atol=1e-3)
    assert exact_norm(other) == pytest.approx(0.5, rel=1e-6)


def test_what_is_remembered_is_no_part_of_the_state() -> None:
    """Averaged models copy parameters and buffers, and hand-written averages whole states: all keep shape."""
    operator = convolution().train()
    shapes = {name: value.shape for name, value in operator.state_dict().items()}
    for side in (6, 9):
        operator(maps(side))
        assert {name: value.shape for name, value in operator.state_dict().items()} == shapes
    assert not list(operator.buffers())


def test_inference_mode_first_and_training_after() -> None:
    """A sanity check in inference mode, as trainers do, must not poison what is kept."""
    operator, x = convolution(), maps()
    with torch.inference_mode():
        value = operator.eval()(x)
    torch.testing.assert_close(value, operator(x).detach())
    operator.train()(x).sum().backward()
    assert operator.raw_weight.grad is not None

    half = convolution().bfloat16()
    with torch.inference_mode():
        assert half.eval()(x.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("kind", ["dense", "conv"])
def test_half_precision_is_measured_in_single(kind: str) -> None:
    torch.manual_seed(0)
    norm = geq.constraints.SpectralBound(0.5)
    operator = (
        geq.operators.Dense(8, 8, constraint=norm)
        if kind == "dense"
        else geq.operators.Convolution(4, 4, constraint=norm)
    )
    operator.bfloat16()
    z = torch.randn(2, 8) if kind == "dense" else torch.randn(2, 4, 6, 6)
    assert operator(z.bfloat16()).dtype == torch.bfloat16
    bound = operator.bind(z.bfloat16()).weight
    assert bound.dtype == torch.bfloat16
    single = bound.detach().float()
    shape = tuple(z.shape[1:])
    matrix = matrix_of(lambda a: operator.apply_weight(single.double(), a), shape)
    assert torch.linalg.matrix_norm(matrix, 2).item() == pytest.approx(0.5, rel=0.02)


def test_repr_shows_the_bound() -> None:
    assert repr(geq.constraints.SpectralBound(0.9)) == "SpectralBound(bound=0.9)"


def test_a_zero_matrix_is_no_problem() -> None:
    for operator, z in [
        (geq.operators.Dense(3, 4, constraint=geq.constraints.SpectralBound()), torch.randn(2, 3)),
        (
            geq.operators.Convolution(3, 4, constraint=geq.constraints.SpectralBound()),
            torch.randn(2, 3, 5, 5),
        ),
        (geq.operators.Dense(3, 4, constraint=geq.constraints.WeightNorm()), torch.randn(2, 3)),
    ]:
        with torch.no_grad():
            operator.raw_weight.zero_()
        assert not operator(z).any()


def test_a_reloaded_operator_evaluates_to_the_very_same_numbers() -> None:
    """Also after a single training solve, whose direction is saved but has not been followed since."""
    operator = geq.operators.Convolution(6, 3, constraint=geq.constraints.SpectralBound(0.5))
    x = torch.randn(2, 6, 8, 8)
    operator.train()(x)
    again = geq.operators.Convolution(6, 3, constraint=geq.constraints.SpectralBound(0.5))
    again.load_state_dict(operator.state_dict())
    with torch.no_grad():
        assert torch.equal(operator.eval()(x), again.eval()(x))
        operator.train()(x)
        again.load_state_dict(operator.state_dict())
        assert torch.equal(operator.eval()(x), again.eval()(x))


@pytest.mark.parametrize("training", [False, True])
def test_weights_replaced_behind_its_back_are_measured_anew(training: bool) -> None:
    """Through ``.data``: the tensor's version does not count it, and one step from the old direction errs."""
    operator = convolution().train(training)
    operator.bind(maps())
    shape = operator.raw_weight.shape
    operator.raw_weight.data.copy_(3 * torch.randn(shape, generator=torch.Generator().manual_seed(7)))
    weight = operator.bind(maps()).weight.detach()
    matrix = matrix_of(lambda z: operator.apply_weight(weight, z), (3, 6, 6))
    assert torch.linalg.matrix_norm(matrix, 2).item() == pytest.approx(0.5, rel=1e-3)


def test_small_changes_are_followed_by_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = convolution().train()
    operator.bind(maps())
    applied: list[Tensor] = []
    usual = operator.apply_weight
    monkeypatch.setattr(operator, "apply_weight", lambda w, z, b=None: applied.append(z) or usual(w, z, b))
    operator.raw_weight.data.mul_(1.1)
    operator.bind(maps())
    assert len(applied) == 2  # the step, and the norm itself


@pytest.mark.parametrize("rule", [geq.constraints.SpectralBound, geq.constraints.SpectralEquality])
@pytest.mark.parametrize("size", [1e-30, 1e-10, 1e10, 1e30])
@pytest.mark.parametrize("training", [False, True])
def test_weights_of_any_size_keep_the_bound(rule: type, size: float, training: bool) -> None:
    """In single precision, where the squares leave the range of the numbers."""
    operator = convolution().float().train(training)
    operator.adopt_constraint(rule(0.5))
    operator.constraint.train(training)
    operator.raw_weight.data.mul_(size)
    weight = operator.bind(maps().float()).weight.detach().double()
    norm = torch.linalg.matrix_norm(
        matrix_of(lambda z: operator.apply_weight(weight, z), (3, 6, 6)), 2
    ).item()
    if rule is geq.constraints.SpectralBound and size < 1:
        assert norm < 1e-8  # below the bound nothing is changed
    else:
        assert norm == pytest.approx(0.5, rel=1e-3)
