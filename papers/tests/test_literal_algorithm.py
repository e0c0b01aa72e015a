"""The fast layer equals algorithm 1 as printed, in value and in every gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from geq.equilibrium import Equilibrium
from geq.errors import OptionError
from geq.gradients import Gradient, Implicit, Phantom
from geq.layers import GEQ2d, OptEq2d
from geq_papers.bench.cifar_branches import torchdeq_solve
from geq_papers.bench.literal_algorithm import LiteralMap, cut, join


def make_layer(dtype: torch.dtype, gradient: Gradient, tol: float, gamma: float | None = None) -> Equilibrium:
    torch.manual_seed(0)
    layer = GEQ2d(5, 12, 8, hidden=16, gamma=gamma, gradient=gradient, tol=tol, max_steps=200)
    return layer.to(dtype)


def make_input(dtype: torch.dtype, side: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 5, side, side, generator=generator, dtype=torch.float64)
    cotangent = torch.randn(3, 12, side, side, generator=generator, dtype=torch.float64)
    return x.to(dtype).requires_grad_(), cotangent.to(dtype)


def solved_literally(fn: LiteralMap, steps: int = 300) -> Tensor:
    with torch.no_grad():
        z = fn.start()
        for _ in range(steps):
            z = fn(z)
    return z


def gradients(layer: Equilibrium, x: Tensor, z: Tensor, cotangent: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*layer.named_parameters(), strict=True)
    found = torch.autograd.grad(z, (x, *parameters), cotangent, allow_unused=True)
    return {name: grad for name, grad in zip(("x", *names), found, strict=True) if grad is not None}


def assert_equal(came: dict[str, Tensor], expected: dict[str, Tensor], tol: float) -> None:
    assert came.keys() == expected.keys()
    for name, grad in expected.items():
        error = float((came[name] - grad).norm() / grad.norm())
        assert error < tol, f"{name}: {error:.1e}"


PRECISIONS = [(torch.float64, 1e-13, 1e-10), (torch.float32, 1e-6, 1e-4)]


@pytest.mark.parametrize("dtype, tol, allowed", PRECISIONS)
@pytest.mark.parametrize("side", [2, 4, 8])
def test_same_value_and_exact_gradient(dtype: torch.dtype, tol: float, allowed: float, side: int) -> None:
    x, cotangent = make_input(dtype, side)
    fast, slow = make_layer(dtype, Implicit(tol=tol), tol), make_layer(dtype, Implicit(), tol)
    z = fast(x)
    fn = LiteralMap.of(slow, x)
    literal = solved_literally(fn)
    assert float((z - literal).detach().norm() / literal.norm()) < allowed
    # The adjoint by plain iteration through autograd: u = cotangent + Jᵀu.
    z0 = literal.detach().requires_grad_()
    image = fn(z0)
    u = cotangent
    for _ in range(300):
        u = cotangent + torch.autograd.grad(image, z0, u, retain_graph=True)[0]
    assert_equal(gradients(fast, x, z, cotangent), gradients(slow, x, image, u), allowed)


def test_fixed_gamma_is_taken_over() -> None:
    x, _ = make_input(torch.float64)
    layer = make_layer(torch.float64, Implicit(), 1e-12, gamma=0.7).eval()  # training moves the norm on
    fn = LiteralMap.of(layer, x)
    assert fn.gamma.tolist() == [0.7] * 3
    literal = solved_literally(fn)
    assert float((layer(x) - literal).detach().norm() / literal.norm()) < 1e-10


def test_phantom_is_five_damped_steps() -> None:
    x, cotangent = make_input(torch.float64)
    fast, slow = make_layer(torch.float64, Phantom(), 1e-13), make_layer(torch.float64, Phantom(), 1e-13)
    fn = LiteralMap.of(slow, x)
    z = solved_literally(fn)
    for _ in range(5):
        z = 0.2 * z + 0.8 * fn(z)
    assert_equal(gradients(fast, x, fast(x), cotangent), gradients(slow, x, z, cotangent), 1e-10)


def test_torchdeq_finds_the_same_point_and_phantom_gradient() -> None:
    pytest.importorskip("torchdeq", reason="needs torchdeq")
    x, cotangent = make_input(torch.float64)
    fast, slow = make_layer(torch.float64, Phantom(), 1e-12), make_layer(torch.float64, Phantom(), 1e-12)
    z = torchdeq_solve(tol=1e-12, max_steps=200, lam=1e-14)(LiteralMap.of(slow, x))
    ours = fast(x)
    assert float((z - ours).detach().norm() / z.detach().norm()) < 1e-9
    assert_equal(gradients(fast, x, ours, cotangent), gradients(slow, x, z, cotangent), 1e-8)


def test_cut_and_join_are_inverse() -> None:
    maps = torch.randn(2, 8, 6, 4)
    rows = cut(maps, 2, 4)
    assert rows.shape == (2 * 2 * 3 * 2, 16)
    assert torch.equal(rows[0].view(4, 2, 2), maps[0, :4, :2, :2])
    assert torch.equal(join(rows, maps.shape, 2, 4), maps)


def test_other_kernels_are_refused() -> None:
    with pytest.raises(OptionError, match="kernel on patches: got Linear"):
        LiteralMap.of(OptEq2d(3, 8), torch.zeros(1, 3, 4, 4))
