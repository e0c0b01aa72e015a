"""Kernels that autograd cannot derive are refused, instead of an equilibrium that is exactly zero."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import geq


def layer_of(kernel: geq.kernels.Kernel) -> geq.Equilibrium:
    torch.manual_seed(0)
    W, U = geq.operators.Dense(6, 5), geq.operators.Dense(4, 5)
    return geq.Equilibrium(geq.EnergyProblem(kernel, W=W, U=U)).double()


def total(a: Tensor) -> Tensor:
    return a.flatten(1).sum(1)


def without_graph(u: Tensor, v: Tensor) -> Tensor:
    with torch.no_grad():
        return total((u * v).tanh())


CUT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "detach": lambda u, v: total((u.detach() * v).tanh()),
    "detach both": lambda u, v: total((u.detach() * v.detach()).tanh()),
    "no_grad": without_graph,
    "numpy": lambda u, v: torch.from_numpy((u.detach() * v.detach()).numpy()).sum(1),
    "item": lambda u, v: torch.tensor([float(row) for row in total(u.detach())], dtype=u.dtype),
    "of v alone": lambda u, v: total(v.square()),
    "constant": lambda u, v: torch.zeros(len(u), dtype=u.dtype),
}


@pytest.mark.parametrize("way", CUT)
@pytest.mark.parametrize("training", [True, False])
def test_a_value_cut_off_from_u_is_refused(way: str, training: bool) -> None:
    class Cut(geq.kernels.Kernel):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def value(self, u: Tensor, v: Tensor) -> Tensor:
            found = CUT[way](u, v)
            return self.scale * found if way == "detach" else found

    layer, x = layer_of(Cut()).train(training), torch.randn(3, 4, dtype=torch.float64)
    for call in (layer, layer.solve):
        with pytest.raises(geq.errors.GradientError, match="does not depend on it; compute it with torch"):
            call(x)


def test_a_constant_kernel_gives_its_gradient() -> None:
    class Constant(geq.kernels.Kernel):
        def value(self, u: Tensor, v: Tensor) -> Tensor:
            return total(v.square())

        def grad(self, u: Tensor, v: Tensor) -> Tensor:
            return torch.zeros_like(u)

    layer, x = layer_of(Constant()), torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    layer(x).sum().backward()
    assert not layer(x).any()
    assert x.grad is None or not x.grad.any()


def test_a_gradient_that_happens_to_be_zero_is_taken() -> None:
    class Flat(geq.kernels.Kernel):
        def value(self, u: Tensor, v: Tensor) -> Tensor:
            return total(0 * u)

    assert not layer_of(Flat())(torch.randn(3, 4, dtype=torch.float64)).any()
