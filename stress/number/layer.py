"""The layers that are attacked, small enough to ask thousands of times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from geq.equilibrium import Equilibrium
from geq.kernels import PatchGaussianKernel, PolynomialKernel, SigmoidKernel
from geq.layers import DeepOptEq2d, DeepOptEqLinear, GEQ2d, GEQLinear, OptEq2d, OptEqLinear
from geq.solvers import FISTA, Anderson, Broyden, Picard, ProximalGradient, Solver

Build = Callable[[Solver[Any], float], Equilibrium]

CHANNELS, SIDE = 3, 4

LAYERS: dict[str, Build] = {
    "GEQ2d": lambda s, t: GEQ2d(CHANNELS, 8, channel_split=4, hidden=8, solver=s, tol=t, max_steps=200),
    "GEQ2d, no norm of the input": lambda s, t: GEQ2d(
        CHANNELS, 8, channel_split=4, hidden=8, normalise_input=False, solver=s, tol=t, max_steps=200
    ),
    "GEQLinear": lambda s, t: GEQLinear(CHANNELS, 8, solver=s, tol=t, max_steps=200),
    "OptEq2d": lambda s, t: OptEq2d(CHANNELS, 8, normalise_input=False, solver=s, tol=t, max_steps=200),
    "OptEqLinear": lambda s, t: OptEqLinear(CHANNELS, 8, solver=s, tol=t, max_steps=200),
    "OptEqLinear, polynomial": lambda s, t: OptEqLinear(
        CHANNELS, 8, kernel=PolynomialKernel(2), solver=s, tol=t, max_steps=200
    ),
    "OptEqLinear, sigmoid": lambda s, t: OptEqLinear(
        CHANNELS, 8, kernel=SigmoidKernel(), solver=s, tol=t, max_steps=200
    ),
    "DeepOptEq2d": lambda s, t: DeepOptEq2d(CHANNELS, (4, 6), solver=s, tol=t, max_steps=200),
    "DeepOptEqLinear": lambda s, t: DeepOptEqLinear(CHANNELS, (4, 6), solver=s, tol=t, max_steps=200),
}

SOLVERS: dict[str, Solver[Any]] = {
    "Picard": Picard(),
    "damped Picard": Picard(damping=0.5),
    "Anderson": Anderson(),
    "Anderson, memory 10, no ridge": Anderson(memory=10, ridge=0.0),
    "Broyden": Broyden(),
    "ProximalGradient": ProximalGradient(),
    "FISTA": FISTA(),
}

DTYPES = (torch.float32, torch.float64)
HALF = (torch.float16, torch.bfloat16)


def from_an_energy(solver: Solver[Any]) -> bool:
    return isinstance(solver, (ProximalGradient, FISTA))


def fits(name: str, solver: Solver[Any]) -> bool:
    """Whether the layer can be solved by it: a composition has no energy of its own."""
    return not (name.startswith("Deep") and from_an_energy(solver))


def build(name: str, solver: Solver[Any] | None = None, tol: float = 1e-4, seed: int = 0) -> Equilibrium:
    """A fresh layer in evaluation, with statistics as after training."""
    torch.manual_seed(seed)
    layer = LAYERS[name](Anderson() if solver is None else solver, tol)
    for module in layer.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            assert module.running_var is not None
            module.running_var.fill_(0.3)
        if isinstance(module, PatchGaussianKernel):
            # Away from its start, an isometry: there its norm has no derivative.
            module.raw_projection.data.mul_(0.9)
        bias = getattr(module, "bias", None)
        if isinstance(bias, Tensor):
            bias.data.normal_(std=0.3)
    return layer.eval()


def sample(name: str, batch: int, generator: torch.Generator, side: int = SIDE) -> Tensor:
    """Inputs of unit size."""
    shape = (batch, CHANNELS, side, side) if "2d" in name else (batch, CHANNELS)
    return torch.randn(shape, generator=generator, dtype=torch.float64)
