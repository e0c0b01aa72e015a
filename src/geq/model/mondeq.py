"""monDEQ, the monotone operator equilibrium network with a single convolution (Winston and Kolter 2020).

    image → equilibrium z = ReLU(Wz + Ux + b) → 4×4 average pooling → linear

W = (1 − m)I − AᵀA + B − Bᵀ has exactly one equilibrium by construction; see :mod:`geq.model.mondeq_cell` for
the operator, the two splittings and where they differ from the authors'. 81 and 200 channels give the 172,218
and 853,612 parameters of the paper's table. There is no norm and no stem, as in the paper.

Solved by Anderson on the splitting's map, which contracts by itself; differentiated implicitly on the same
map (the adjoint contracts like it), to the tolerance ``gradient_tol``. With m = 1 and g = h = 1, as in the
paper, ‖W‖ is 0.2 to 0.6 at the start.

Initialisation: kernels of A and B Gaussian (only their direction matters), g = h = 1; U and the head as
PyTorch does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from geq.equilibrium import Equilibrium
from geq.errors import InputError, OptionError
from geq.gradients import Implicit
from geq.model.config import ADDED_LATER, NetworkConfig
from geq.model.cost import multiply_adds
from geq.model.model_registry import ModelSpec, register
from geq.model.mondeq_cell import ForwardBackwardCell, MonotoneCell, PeacemanRachfordCell
from geq.model.network import Network
from geq.solvers import Anderson

SPLITTINGS: dict[str, type[MonotoneCell]] = {
    "forward_backward": ForwardBackwardCell,
    "peaceman_rachford": PeacemanRachfordCell,
}


@dataclass(frozen=True)
class MonConfig(NetworkConfig):
    """Args:
    channels: of the state.
    splitting: the map that is iterated; both have the same equilibrium. Peaceman–Rachford needs fewer
        steps (it slows down with ‖I − W‖/m, forward-backward with its square) and one inverse per frequency.
    monotonicity: m, above 0.
    step: α of the splitting; None for its own rule.
    stride: of U: the state has one position for each of its steps on the image.
    pool: side of the averaged squares of the state before the linear head.
    tol, max_steps, memory: of the Anderson solver.
    gradient_tol, gradient_steps: tolerance and most products of the adjoint system.
    """

    channels: int = field(kw_only=True)
    splitting: Literal["forward_backward", "peaceman_rachford"] = field(
        default="peaceman_rachford", kw_only=True
    )
    monotonicity: float = field(default=1.0, kw_only=True)
    step: float | None = field(default=None, kw_only=True)
    pool: int = field(default=4, kw_only=True)
    tol: float = field(default=1e-4, kw_only=True)
    max_steps: int = field(default=100, kw_only=True)
    memory: int = field(default=5, kw_only=True)
    gradient_tol: float = field(default=1e-4, kw_only=True)
    gradient_steps: int = field(default=100, kw_only=True)
    stride: int = field(default=1, kw_only=True, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.channels < 1:
            raise OptionError(f"channels must be positive; got {self.channels}")
        if self.stride < 1:
            raise OptionError(f"stride must be at least 1; got {self.stride}")
        if not 1 <= self.pool <= min(self.state_size):
            raise OptionError(
                f"pool must lie between 1 and the side of the state, {min(self.state_size)}; got {self.pool}"
            )

    @property
    def state_size(self) -> tuple[int, int]:
        """Height and width of z."""
        _, height, width = self.input_shape
        return -(-height // self.stride), -(-width // self.stride)


class Mon(Network):
    """One monotone equilibrium on the pixels and a linear head.

    The head reads every pooled position, so images must have exactly ``input_shape``.

    >>> import torch
    >>> from geq.model.model_registry import create_model
    >>> model = create_model("mon_tiny", splitting="forward_backward")
    >>> model(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    >>> model.well_posedness()["equilibrium"].unique
    True
    """

    family = "mon"
    config_class = MonConfig
    config: MonConfig

    def __init__(self, config: MonConfig) -> None:
        super().__init__(config)
        splitting = SPLITTINGS[config.splitting]
        self.equilibrium = Equilibrium(
            splitting(
                config.input_shape[0], config.channels, config.monotonicity, config.step, config.stride
            ),
            Anderson(config.memory),
            Implicit(config.gradient_tol, config.gradient_steps),
            config.tol,
            config.max_steps,
        )
        height, width = config.state_size
        positions = (height // config.pool) * (width // config.pool)
        self.head = nn.Linear(config.channels * positions, config.num_classes)

    def check_input(self, x: Tensor) -> None:
        super().check_input(x)
        if tuple(x.shape[1:]) != self.input_shape:
            height, width = self.input_shape[1:]
            raise InputError(
                f"the linear head of monDEQ reads every position: images must be {height}×{width}; "
                f"got {tuple(x.shape[2:])}; build the model with input_shape={tuple(x.shape[1:])}"
            )

    def multiply_adds(self) -> int:
        """Of one evaluation of the splitting, four to a complex one; Fourier transforms are not counted."""
        with torch.device("meta"):  # a given step spares the bound of ‖I − W‖, which needs real weights
            outline = Mon(replace(self.config, step=1.0))
        return 4 * multiply_adds(outline)

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch classes"]:
        self.check_input(x)
        cell = self.equilibrium.cell
        assert isinstance(cell, MonotoneCell)
        z = cell.read(self.equilibrium(x))
        return self.head(F.avg_pool2d(z, self.config.pool).flatten(1))

    def exportable(self) -> str:
        return (
            "monDEQ iterates in the Fourier domain, with complex numbers, for which ONNX has no operators, "
            "and with an inverse per frequency"
        )


CIFAR, DIGITS = (3, 32, 32), (1, 8, 8)
_SOURCE = "Winston and Kolter 2020"

register(
    ModelSpec("mon_cifar_172k", Mon, MonConfig(CIFAR, channels=81), "OptEq table 4", "CIFAR-10 74.1; 172k"),
    ModelSpec("mon_cifar_854k", Mon, MonConfig(CIFAR, channels=200), "OptEq table 4", "CIFAR-10 82.5; 854k"),
    ModelSpec("mon_tiny", Mon, MonConfig(DIGITS, channels=32), _SOURCE),
    ModelSpec("mon_small", Mon, MonConfig(CIFAR, channels=37), _SOURCE),
    ModelSpec("mon_small_200k", Mon, MonConfig(CIFAR, channels=88), _SOURCE),
)
