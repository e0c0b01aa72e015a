"""Neural ODEs on images (Chen et al. 2018) and their augmented form (Dupont et al. 2019), solved by
torchdiffeq.

    dz/dt = f(z),   z(0) = [image, a zeros],   y = V vec(z(1)) + v

f is 1×1, 3×3, 1×1 convolutions with ReLU between, without time as an input. With 125 filters and no extra
channel, or 64 filters and 10 extra channels, a CIFAR image gives the 172k parameters of both baselines of
OptEq's table 4.

Ours: the default solver is the classical fourth-order Runge–Kutta method with fixed steps. The original's
adaptive Dormand–Prince is ``method="dopri5"``; its step sizes are chosen for the whole batch, so a
prediction then depends on the other images of its batch.

Initialisation: as PyTorch initialises convolutions and linear layers (uniform in ±1/√fan_in), which keeps
‖f‖ small and the initial flow close to the identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from geq.errors import InputError, MissingExtraError, OptionError
from geq.model.config import NetworkConfig
from geq.model.cost import count_multiply_adds, zero_image
from geq.model.model_registry import ModelSpec, register
from geq.model.network import Network


@dataclass(frozen=True)
class NeuralODEConfig(NetworkConfig):
    """Args:
    filters: channels inside the vector field.
    extra_channels: zero channels appended to the image; more than 0 makes an augmented Neural ODE.
    method: ``rk4`` (fixed steps) or ``dopri5`` (adaptive).
    steps: number of fixed steps of ``rk4`` from time 0 to 1; each costs four evaluations.
    tolerance: relative and absolute tolerance of ``dopri5``.
    adjoint: differentiate by the adjoint equation (memory independent of the steps, gradient up to the
        solver's error) instead of through the steps (exact for the discretised flow).
    """

    filters: int = field(kw_only=True)
    extra_channels: int = field(default=0, kw_only=True)
    method: Literal["rk4", "dopri5"] = field(default="rk4", kw_only=True)
    steps: int = field(default=4, kw_only=True)
    tolerance: float = field(default=1e-3, kw_only=True)
    adjoint: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.filters, self.steps) < 1 or self.extra_channels < 0 or self.tolerance <= 0:
            raise OptionError(
                "filters, steps and tolerance must be positive and extra_channels not negative; "
                f"got {self.filters}, {self.steps}, {self.tolerance} and {self.extra_channels}"
            )


class VectorField(nn.Module):
    """f(z): 1×1, ReLU, 3×3, ReLU, 1×1 convolutions, the same at all times."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(channels, filters, 1)
        self.mix = nn.Conv2d(filters, filters, 3, padding=1)
        self.up = nn.Conv2d(filters, channels, 1)

    def forward(self, time: Tensor, z: Tensor) -> Tensor:
        # Under autocast the convolutions return half precision, too coarse for small steps of z.
        return self.up(F.relu(self.mix(F.relu(self.down(z))))).to(z.dtype)


class NeuralODE(Network):
    """The image flows from time 0 to 1 along a learned vector field; a linear layer reads the end point.

    The head reads every pixel, so images must have exactly ``input_shape``.
    """

    family = "node"
    config_class = NeuralODEConfig
    config: NeuralODEConfig

    def __init__(self, config: NeuralODEConfig) -> None:
        super().__init__(config)
        channels, height, width = config.input_shape
        self.field = VectorField(channels + config.extra_channels, config.filters)
        self.head = nn.Linear((channels + config.extra_channels) * height * width, config.num_classes)

    def check_input(self, x: Tensor) -> None:
        super().check_input(x)
        if tuple(x.shape[2:]) != self.input_shape[1:]:
            height, width = self.input_shape[1:]
            raise InputError(
                f"the linear head of a Neural ODE reads every pixel: images must be {height}×{width}; "
                f"got {tuple(x.shape[2:])}; build the model with input_shape={tuple(x.shape[1:])}"
            )

    def initial_state(self, x: Tensor) -> Tensor:
        """The image with its extra channels of zeros."""
        return F.pad(x, (0, 0, 0, 0, 0, self.config.extra_channels))

    def flow(self, z: Tensor) -> Tensor:
        """z(1) for z(0) = ``z``."""
        try:
            from torchdiffeq import odeint, odeint_adjoint
        except ImportError as problem:
            raise MissingExtraError.naming(
                "torchdiffeq", "baselines", "a Neural ODE", "geq-papers"
            ) from problem
        config = self.config
        times = torch.linspace(0, 1, 2, dtype=z.dtype, device=z.device)
        options = {"step_size": 1 / config.steps} if config.method == "rk4" else None
        solve = odeint_adjoint if config.adjoint else odeint
        path = solve(
            self.field,
            z,
            times,
            rtol=config.tolerance,
            atol=config.tolerance,
            method=config.method,
            options=options,
        )
        return path[-1]

    def multiply_adds(self) -> int:
        """Of one evaluation of the vector field."""
        state = self.initial_state(zero_image(self))
        return count_multiply_adds(lambda: self.field(state.new_zeros(()), state))

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch classes"]:
        self.check_input(x)
        return self.head(self.flow(self.initial_state(x)).flatten(1))

    def exportable(self) -> str:
        return (
            "a Neural ODE is solved by torchdiffeq, which chooses its steps by values and so cannot be traced"
        )


CIFAR, DIGITS = (3, 32, 32), (1, 8, 8)
_SOURCE = "Chen et al. 2018"

register(
    ModelSpec(
        "node_cifar_172k", NeuralODE, NeuralODEConfig(CIFAR, filters=125), "OptEq table 4", "CIFAR-10 53.7"
    ),
    ModelSpec(
        "node_augmented_cifar_172k",
        NeuralODE,
        NeuralODEConfig(CIFAR, filters=64, extra_channels=10),
        "OptEq table 4",
        "CIFAR-10 60.6",
    ),
    ModelSpec("node_tiny", NeuralODE, NeuralODEConfig(DIGITS, filters=46), _SOURCE),
    ModelSpec("node_small", NeuralODE, NeuralODEConfig(CIFAR, filters=45), _SOURCE),
    ModelSpec("node_small_200k", NeuralODE, NeuralODEConfig(CIFAR, filters=137), _SOURCE),
)
