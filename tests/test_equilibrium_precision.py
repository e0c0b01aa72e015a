"""Precisions and modes of torch: right, or refused in words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

import energy_problems
import geq

KINDS = ["linear", "polynomial", "sigmoid", "gaussian-learned", "gaussian-paper", "own", "patch-learned"]


def layer_and_input(kind: str, **options: object) -> tuple[geq.Equilibrium, Tensor]:
    options = {"tol": 1e-5, "max_steps": 200, **options}
    if kind.startswith("patch"):
        problem, x = (
            energy_problems.conv(kind, constraint=geq.constraints.SpectralBound(0.6)),
            energy_problems.small_maps(),
        )
    else:
        problem, x = (
            energy_problems.dense(kind, constraint=geq.constraints.SpectralBound(0.6)),
            energy_problems.small_vectors(),
        )
    return geq.Equilibrium(problem, **options), x  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_single_and_double_agree(kind: str) -> None:
    layer, x = layer_and_input(kind)
    double = layer.eval()(x).detach()
    assert double.dtype == torch.float64
    single = layer.float()(x.float()).detach()
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-4)
    again = layer.double()(x).detach()
    torch.testing.assert_close(again, double, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [True, False])
def test_bfloat16_module(kind: str, training: bool) -> None:
    """Parameters and values of 16 bits; the equilibrium between them is found in 32."""
    layer, x = layer_and_input(kind)
    expected = layer.eval()(x).detach()
    layer.bfloat16().train(training)
    x = x.bfloat16().requires_grad_()
    z = layer(x)
    assert z.dtype == torch.bfloat16
    torch.testing.assert_close(z.double(), expected, rtol=0.1, atol=0.03)
    assert layer.last_solution is not None
    assert layer.last_solution.converged.all(), "to a tolerance that bfloat16 cannot resolve"
    assert layer.last_solution.residual.dtype == torch.float32
    z.float().sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == torch.bfloat16
    assert all(p.grad is not None and p.grad.dtype == torch.bfloat16 for p in layer.parameters())
    assert layer(x, z0=z.detach()).shape == z.shape, "its own output is a warm start"
    assert torch.isfinite(layer.energy(x)).all()
    if kind in ("linear", "gaussian-learned", "patch-learned"):
        assert layer.well_posedness(layer.map_size(x)).unique


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_autocast(kind: str) -> None:
    """As a layer in a network under autocast: the solve itself keeps single precision."""
    layer, x = layer_and_input(kind)
    layer.float()
    x = x.float()
    before, after = torch.nn.Linear(x.shape[-1], x.shape[-1]), torch.nn.Flatten()
    plain = layer.eval()(before(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = before(x)
        assert features.dtype == torch.bfloat16
        z = layer(features)
        loss = after(z).sum()
    assert z.dtype == torch.float32
    assert layer.last_solution is not None
    assert layer.last_solution.converged.all()
    torch.testing.assert_close(z, plain, rtol=0.1, atol=0.03)
    loss.backward()
    assert before.weight.grad is not None
    assert before.weight.grad.any()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer.solve(features.detach()).value.dtype == torch.float32  # type: ignore[union-attr]
        assert layer.energy(x).dtype == torch.float32


def test_autocast_of_a_cell_with_several_inputs() -> None:
    class Sum(geq.Cell):
        def inject(self, x: list[Tensor]) -> Tensor:
            return x[0] + x[1]

        def forward(self, z: Tensor, c: Tensor) -> Tensor:
            return 0.5 * z + c

    layer = geq.Equilibrium(Sum(), tol=1e-6)
    pair = [torch.ones(2, 3, dtype=torch.bfloat16), torch.ones(2, 3)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = layer(pair)
    assert z.dtype == torch.float32
    torch.testing.assert_close(z, torch.full((2, 3), 4.0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precision_is_refused_in_words(dtype: torch.dtype) -> None:
    layer, x = layer_and_input("gaussian-learned")
    layer.float()
    with pytest.raises(
        geq.errors.InputError, match=rf"precision of the weights, torch.float32: got {dtype}.*autocast"
    ):
        layer(x.to(dtype))


def test_start_in_another_precision_is_cast() -> None:
    layer, x = layer_and_input("gaussian-learned")
    layer.eval()
    z0 = torch.zeros(3, energy_problems.STATE)
    torch.testing.assert_close(layer(x, z0=z0), layer(x))


@pytest.mark.parametrize("kind", KINDS)
def test_inference_mode(kind: str) -> None:
    """Same values as without; and what is remembered there can be trained with afterwards."""
    layer, x = layer_and_input(kind)
    with torch.inference_mode():
        inside = layer.eval()(x.clone())  # an inference tensor, as from a layer before this one
        energy = layer.energy(x)
        assert not inside.requires_grad
    torch.testing.assert_close(inside.clone(), layer(x).detach())
    torch.testing.assert_close(energy.clone(), layer.energy(x).detach())
    layer.train()(x).sum().backward()
    assert all(p.grad is not None for p in layer.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_functional_call(kind: str) -> None:
    layer, x = layer_and_input(kind)
    layer.eval()
    other = {name: value.detach() * 0.5 for name, value in layer.named_parameters()}
    called = functional_call(layer, other, (x,))
    before = layer(x).detach()
    assert (called - before).abs().max().item() > 1e-3
    layer.load_state_dict(other, strict=False)
    torch.testing.assert_close(layer(x).detach(), called.detach())


COMPILED = """
import torch, geq
import energy_problems
for kernel in ("gaussian-learned", "linear", "own"):
    problem = energy_problems.dense(kernel, constraint=geq.constraints.SpectralBound(0.6))
    layer = geq.Equilibrium(problem, tol=1e-9, max_steps=200)
    x = energy_problems.small_vectors().requires_grad_()
    ends = torch.nn.Linear(4, 4).double(), torch.nn.Linear(6, 2).double()
    network = torch.nn.Sequential(ends[0], layer, ends[1]).eval()
    plain = network(x)
    gradients = torch.autograd.grad(plain.sum(), [x, *network.parameters()])
    for backend in ("eager", "aot_eager"):
        for dynamic in (None, True):
            value = torch.compile(network, backend=backend, dynamic=dynamic)(x)
            torch.testing.assert_close(value, plain)
            found = torch.autograd.grad(value.sum(), [x, *network.parameters()])
            torch.testing.assert_close(found, gradients)
        torch.testing.assert_close(torch.compile(layer, backend=backend)(x), layer(x))
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(layer, backend="eager")(x), layer(x))
    assert layer.last_solution.converged.all()
print("same")
"""


@pytest.mark.slow
def test_compile() -> None:
    """A network with a layer in it, compiled: same values, same gradients.

    In a process of its own, because the compiler cannot trace through the run-time checks of the tests.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:geq", "-c", COMPILED],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "same\n"


def test_vmap_is_refused_not_wrong() -> None:
    """The loop looks at its residuals, which a traced batch axis does not show."""
    layer, x = layer_and_input("gaussian-learned")
    with pytest.raises(RuntimeError, match="vmap"):
        torch.func.vmap(layer.eval())(x.unsqueeze(1))
