"""Transforms of ``torch.func`` and forward mode: right, or refused by an error that names what works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, func
from torch.autograd import forward_ad
from torch.autograd.functional import jacobian

import geq

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")

LAYERS: dict[str, Callable[..., geq.Equilibrium]] = {
    "dense": lambda **options: geq.GEQLinear(4, 3, **options).double(),
    "maps": lambda **options: geq.GEQ2d(2, 2, patch=2, **options).double(),
    "function": lambda **options: geq.Equilibrium(lambda z, x: torch.tanh(0.5 * z + x), **options),
}


def made(name: str, **options: Any) -> tuple[geq.Equilibrium, Tensor]:
    torch.manual_seed(0)
    shape = (2, 2, 4, 4) if name == "maps" else (2, 4)
    return LAYERS[name](**options).eval(), torch.randn(shape, dtype=torch.float64)


def tangent(layer: geq.Equilibrium, x: Tensor) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(layer(forward_ad.make_dual(x, torch.ones_like(x)))).tangent


def of_parameters(layer: geq.Equilibrium, x: Tensor) -> Any:
    def loss(parameters: dict[str, Tensor]) -> Tensor:
        return func.functional_call(layer, parameters, (x,)).square().sum()

    return func.grad(loss)(dict(layer.named_parameters()))


TRANSFORMS: dict[str, Callable[[geq.Equilibrium, Tensor], Any]] = {
    "grad": lambda layer, x: func.grad(lambda t: layer(t).sum())(x),
    "grad of parameters": of_parameters,
    "vjp": lambda layer, x: func.vjp(layer, x),
    "jacrev": lambda layer, x: func.jacrev(layer)(x),
    "jacfwd": lambda layer, x: func.jacfwd(layer)(x),
    "jvp": lambda layer, x: func.jvp(layer, (x,), (x,)),
    "hessian": lambda layer, x: func.hessian(lambda t: layer(t).sum())(x),
    "forward mode": tangent,
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_transform_is_refused_by_name_of_what_works(layer: str, transform: str) -> None:
    with pytest.raises(geq.errors.GradientError, match=r"torch\.autograd\.functional\.jacobian"):
        TRANSFORMS[transform](*made(layer))


@pytest.mark.parametrize("layer", LAYERS)
def test_vmap_is_refused_by_name_of_what_works(layer: str) -> None:
    equilibrium, x = made(layer)
    for gradient in (geq.gradients.Implicit(), geq.gradients.Unrolled(30)):
        equilibrium.gradient = gradient
        with pytest.raises(geq.errors.GradientError, match=r"torch\.autograd\.grad in a loop"):
            func.vmap(equilibrium)(x.unsqueeze(1))


def test_what_the_refusal_names_works() -> None:
    """The exact gradient in torch.autograd, and iterations in torch.func, agree with each other."""
    layer, x = made("dense", tol=1e-10, max_steps=200)
    expected = jacobian(layer, x)
    assert expected.abs().max() > 0.01
    singly = torch.stack([jacobian(layer, row[None])[0, :, 0] for row in x])
    torch.testing.assert_close(
        singly, torch.stack([expected[i, :, i] for i in range(2)]), rtol=1e-6, atol=1e-8
    )
    layer.gradient = geq.gradients.Unrolled(300)
    torch.testing.assert_close(func.jacrev(layer)(x), expected, rtol=1e-6, atol=1e-8)
    direction = torch.randn_like(x)
    along = torch.einsum("ijkl,kl->ij", expected, direction)
    torch.testing.assert_close(func.jvp(layer, (x,), (direction,))[1], along, rtol=1e-6, atol=1e-8)
    (pulled,) = func.vjp(layer, x)[1](torch.ones_like(along))
    torch.testing.assert_close(pulled, expected.sum((0, 1)), rtol=1e-6, atol=1e-8)
