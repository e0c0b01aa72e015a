"""TF32 inside a solve, simulated: operands are rounded to 10 bits while it is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

import geq
from geq.solvers import Anderson, Status, fixed_point, precision

OFF = [off for _, _, off in precision.switches()]


def state() -> list[object]:
    return [getattr(owner, name) for owner, name, _ in precision.switches()]


def ten_bits(values: Tensor) -> Tensor:
    """Round the mantissa to 10 bits, as tensor cores read single precision."""
    bits = values.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


@pytest.fixture
def tensor_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A CPU that behaves as a GPU does: convolutions round their operands unless TF32 is off."""
    monkeypatch.setattr(precision, "may_round", lambda like: like.dtype == torch.float32)
    operator = geq.operators.Convolution

    def rounding(own: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def apply(self: object, weight: Tensor, z: Tensor, *rest: object) -> Tensor:
            if state()[0] != OFF[0]:
                weight, z = ten_bits(weight), ten_bits(z)
            return own(self, weight, z, *rest)

        return apply

    for name in ("apply_weight", "apply_adjoint"):
        monkeypatch.setattr(operator, name, rounding(getattr(operator, name)))
    before = state()
    for owner, name, off in precision.switches():
        setattr(owner, name, "tf32" if off == "ieee" else True)
    yield
    for (owner, name, _), value in zip(precision.switches(), before, strict=True):
        setattr(owner, name, value)


def layer(tol: float) -> geq.GEQ2d:
    torch.manual_seed(0)
    made = geq.GEQ2d(3, 32, tol=tol, on_failure="ignore", constraint=geq.constraints.SpectralBound(0.95))
    return made.eval()


@pytest.mark.usefixtures("tensor_cores")
def test_rounded_products_stop_above_the_tolerance_and_exact_ones_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, allowed = torch.randn(4, 3, 8, 8), state()
    found = layer(1e-5).solve(x)
    assert found.status is Status.CONVERGED
    assert state() == allowed
    monkeypatch.setattr(precision, "may_round", lambda like: False)  # nobody switches it off
    stuck = layer(1e-5).solve(x)
    assert stuck.status is Status.MAX_STEPS
    assert 1e-5 < float(stuck.residual.max()) < precision.TF32_FLOOR / 2


@pytest.mark.usefixtures("tensor_cores")
def test_the_floor_is_reached_with_rounded_products() -> None:
    found = layer(precision.TF32_FLOOR).solve(torch.randn(4, 3, 8, 8))
    assert found.status is Status.CONVERGED


@pytest.mark.usefixtures("tensor_cores")
@pytest.mark.parametrize(
    "tol, dtype, off",
    [(1e-4, torch.float32, True), (1e-3, torch.float32, False), (1e-8, torch.float64, False)],
)
def test_switched_off_only_where_it_is_needed(tol: float, dtype: torch.dtype, off: bool) -> None:
    allowed, seen = state(), []

    def fn(z: Tensor) -> Tensor:
        seen.append(state() == OFF)
        return z / 3 + 1

    fixed_point(fn, torch.zeros(2, 3, dtype=dtype), Anderson(), tol=tol)
    assert set(seen) == {off}
    assert state() == allowed


@pytest.mark.usefixtures("tensor_cores")
def test_switched_on_again_after_an_error() -> None:
    allowed = state()

    def broken(z: Tensor) -> Tensor:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fixed_point(broken, torch.zeros(2, 3), Anderson(), tol=1e-6)
    assert state() == allowed


@pytest.mark.usefixtures("tensor_cores")
def test_an_exact_gradient_is_exact_there_too() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8)
    made = geq.Equilibrium(
        layer(1e-6).problem, tol=1e-6, gradient=geq.gradients.Implicit(tol=1e-5), max_steps=200
    )
    made.eval()
    made(x).square().sum().backward()
    assert made.last_adjoint is not None
    assert bool(made.last_adjoint.converged.all())


def test_on_a_cpu_nothing_is_switched() -> None:
    allowed, seen = state(), []

    def fn(z: Tensor) -> Tensor:
        seen.append(state())
        return z / 3

    fixed_point(fn, torch.ones(1, 2), Anderson(), tol=1e-6)
    assert all(found == allowed for found in seen)
