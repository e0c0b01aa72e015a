"""The reversible iteration: gradient against autograd through the same steps, memory, rounding."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import energy_problems
import geq
from geq.gradients import Reversible, Unrolled


def vectors(batch: int = 3, size: int = 6, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(batch, size, generator=torch.Generator().manual_seed(0), dtype=dtype)


class Cell(nn.Module):
    """A contraction with two weights; it counts its evaluations."""

    def __init__(self, size: int = 6, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.linear = nn.Linear(size, size, dtype=dtype)
        self.calls = 0

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        self.calls += 1
        return torch.tanh(0.7 * self.linear(z) + x)


def by_hand(cell: Any, x: Tensor, steps: int, beta: float) -> Tensor:
    y = z = torch.zeros_like(x)
    for _ in range(steps):
        y = (1 - beta) * y + beta * cell(z, x)
        z = (1 - beta) * z + beta * cell(y, x)
    return z


def layer_of(cell: Any, steps: int, beta: float, **options: Any) -> geq.Equilibrium:
    return geq.Equilibrium(cell, gradient=Reversible(steps, beta, **options))


@pytest.mark.parametrize(("steps", "beta"), [(1, 0.8), (2, 0.99), (10, 0.8), (20, 0.5), (80, 0.2), (8, 1.4)])
def test_value_and_gradient_are_those_of_the_same_iterations(steps: int, beta: float) -> None:
    cell, x = Cell(), vectors().requires_grad_()
    layer = layer_of(cell, steps, beta)
    found, expected = layer(x), by_hand(cell, x, steps, beta)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    weight = torch.randn_like(found)
    wanted = [x, *cell.parameters()]
    one = torch.autograd.grad((found * weight).sum(), wanted)
    other = torch.autograd.grad((expected * weight).sum(), wanted)
    for mine, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), found, rtol=1e-12, atol=1e-14)
    assert layer.last_solution is not None
    assert layer.last_solution.steps.tolist() == [2 * steps] * 3


def test_gradcheck_of_first_and_second_derivatives() -> None:
    layer, x = layer_of(Cell(), 6, 0.6), vectors(2).requires_grad_()
    assert torch.autograd.gradcheck(layer, (x,))
    assert torch.autograd.gradgradcheck(layer, (x,))


def test_gradient_reaches_the_start_and_earlier_layers() -> None:
    """The input is no leaf, and neither is the start."""
    cell, first = Cell(), nn.Linear(6, 6).double()
    layer, x = layer_of(cell, 3, 0.7), vectors().requires_grad_()

    def call(x: Tensor, start: Tensor) -> Tensor:
        return layer(first(x).sin(), z0=start.square())

    assert torch.autograd.gradcheck(call, (x, torch.rand_like(x).requires_grad_()))


@pytest.mark.parametrize("case", ["gaussian-linear", "patch-learned"])
def test_energy_problems_match_their_own_trajectory(case: str) -> None:
    if case == "patch-learned":
        problem, x = energy_problems.conv(case), energy_problems.small_maps()
    else:
        problem, x = energy_problems.dense("gaussian"), energy_problems.vectors()
    x.requires_grad_()
    gradient = Reversible(8, 0.7)
    layer = geq.Equilibrium(problem, gradient=gradient).eval()
    equation = problem.equation(x)
    *_, end = gradient.trajectory(equation, equation.start())
    wanted = [x, *problem.parameters()]
    found = torch.autograd.grad(layer(x).square().sum(), wanted, allow_unused=True)
    assert isinstance(end, Tensor)
    expected = torch.autograd.grad(end.square().sum(), wanted, allow_unused=True)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-12)
    assert layer.energy(x).requires_grad


def retained(gradient: geq.gradients.Gradient, cell: nn.Module, x: Tensor) -> int:
    """Bytes that torch holds after a forward pass, and did not before."""
    layer = geq.Equilibrium(cell, gradient=gradient, on_failure="ignore")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        z = layer(x)
    held = sum(event.self_cpu_memory_usage for event in profiler.key_averages())
    assert z.requires_grad
    return int(held)


def test_memory_does_not_grow_with_the_steps() -> None:
    cell, x = Cell(64, torch.float32), vectors(128, 64, torch.float32)
    state = x.numel() * x.element_size()
    reversible = [retained(Reversible(steps, 0.3), cell, x) for steps in (5, 20, 80)]
    unrolled = [retained(Unrolled(2 * steps, 0.3), cell, x) for steps in (5, 20, 80)]
    assert max(reversible) < 1.05 * min(reversible)
    assert max(reversible) < 12 * state
    assert unrolled[2] > 8 * unrolled[0]
    assert unrolled[2] > 20 * reversible[2]


def test_every_evaluation_is_repeated_once_and_a_second_backward_starts_over() -> None:
    cell, x = Cell(), vectors().requires_grad_()
    z = layer_of(cell, 7, 0.7)(x)
    assert cell.calls == 14 + 1  # the residual at the end
    first = torch.autograd.grad(z.sum(), x, retain_graph=True)[0]
    assert cell.calls == 2 * 14 + 1
    torch.testing.assert_close(torch.autograd.grad(z.sum(), x)[0], first)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_error_of_the_reversal_is_reported(dtype: torch.dtype) -> None:
    """In double precision even for a float32 layer, and near its prediction."""
    cell, x = Cell(dtype=dtype), vectors(dtype=dtype).requires_grad_()
    layer = layer_of(cell, 12, 0.7)
    layer(x).sum().backward()
    assert layer.last_adjoint is not None
    assert layer.last_adjoint.converged.all()
    assert layer.last_adjoint.steps.tolist() == [24] * 3
    worst = float(layer.last_adjoint.residual.max())
    least = layer.gradient.amplified(torch.float64)  # type: ignore[attr-defined]
    assert least < worst < least / math.pow(0.3, 12)
    grad = x.grad
    assert grad is not None
    expected = torch.autograd.grad(by_hand(cell, x, 12, 0.7).sum(), x)[0]
    torch.testing.assert_close(grad, expected, rtol=1e-4, atol=1e-5)


def test_amplified_rounding_is_warned_of_with_the_figure() -> None:
    """An orthogonal map reaches |1 − β|^(−2·steps), which the constructor cannot know."""
    weight = torch.linalg.qr(vectors(6, 6))[0].requires_grad_()
    layer = geq.Equilibrium(lambda z, x: torch.sin(z @ weight.T) + x, gradient=Reversible(22, 0.7))
    z = layer(vectors().requires_grad_())
    with pytest.warns(geq.ConvergenceWarning, match=r"off by up to .* undoing 22 steps with beta = 0.7"):
        z.sum().backward()
    layer.gradient = Reversible(22, 0.7, on_failure="raise")
    with pytest.raises(geq.ConvergenceError, match="smaller beta, fewer steps, or Unrolled"):
        layer(vectors().requires_grad_()).sum().backward()


def test_a_cell_that_changes_between_its_evaluations_is_found_out() -> None:
    cell, x = Cell(), vectors().requires_grad_()
    z = layer_of(cell, 5, 0.7)(x)
    with torch.no_grad():
        cell.linear.weight.mul_(1.01)
    with pytest.warns(geq.ConvergenceWarning, match="or the cell is not the same function twice"):
        z.sum().backward()


def test_transforms_are_refused() -> None:
    layer = layer_of(Cell(), 3, 0.7)
    with pytest.raises(geq.errors.GradientError, match=r"Reversible cannot be used in torch.func.*Unrolled"):
        torch.func.grad(lambda x: layer(x).sum())(vectors())
