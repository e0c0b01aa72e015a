"""MDEQ, the multi-scale deep equilibrium network (Bai et al. 2020), for classification.

    image → two 3×3 convolutions (norm, ReLU) → joint equilibrium of all scales → head

The head brings every scale to more channels, adds them up from fine to coarse by convolutions of stride 2,
and reads the average by a linear layer. :mod:`geq.model.mdeq_cell` has the map and where it differs from the
authors' code; in the head ours has a 1×1 convolution per scale where theirs has a bottleneck block, and fewer
final channels (512 for 1680), which keeps the size at the 10M that GEQ's table 1 gives.

Solved by Anderson (the authors: Broyden, 18 evaluations, whatever the residual then is) to a tolerance, and
differentiated implicitly as by the authors, to the loose tolerance ``gradient_tol``.

Initialisation: convolutions outside the equilibrium from N(0, 2/fan_out), batch norms at 1 and 0, the linear
layer as PyTorch does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from geq.equilibrium import Equilibrium
from geq.errors import InputError, OptionError
from geq.gradients import Implicit
from geq.model.config import ADDED_LATER, NetworkConfig
from geq.model.mdeq_cell import MDEQCell
from geq.model.model_registry import ModelSpec, register
from geq.model.network import FeatureMap, Network
from geq.solvers import Anderson


@dataclass(frozen=True)
class MDEQConfig(NetworkConfig):
    """Args:
    channels: of each scale's state, finest (the resolution after the stem) first; each scale halves it.
    head_channels: to which the head brings each scale.
    final_channels: of the last map, before the average.
    expansion: of the inner channels of a scale's block.
    groups: of the group norms; must divide all channels.
    feedback: weight with which the state re-enters the map, in (0, 1].
    tol, max_steps, memory: of the Anderson solver.
    gradient_tol, gradient_steps: tolerance and most products of the adjoint system.
    stem_strides: of the two convolutions before the equilibrium; the authors' network has 1 and 1 for CIFAR.
    """

    channels: tuple[int, ...] = field(kw_only=True)
    head_channels: tuple[int, ...] = field(kw_only=True)
    final_channels: int = field(kw_only=True)
    expansion: int = field(default=5, kw_only=True)
    groups: int = field(default=8, kw_only=True)
    feedback: float = field(default=0.2, kw_only=True)
    tol: float = field(default=1e-3, kw_only=True)
    max_steps: int = field(default=60, kw_only=True)
    memory: int = field(default=6, kw_only=True)
    gradient_tol: float = field(default=1e-2, kw_only=True)
    gradient_steps: int = field(default=60, kw_only=True)
    stem_strides: tuple[int, int] = field(default=(1, 1), kw_only=True, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.channels or len(self.channels) != len(self.head_channels):
            raise OptionError(
                "channels and head_channels need one entry per scale: "
                f"got {self.channels} and {self.head_channels}"
            )
        if min(*self.channels, *self.head_channels, self.final_channels, self.expansion, self.groups) < 1:
            raise OptionError("channels, expansion and groups must be positive")
        if min(self.stem_strides) < 1:
            raise OptionError(f"stem_strides must be at least 1: got {self.stem_strides}")


def convolution(in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Convolution, batch norm, ReLU."""
    weight = nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(weight.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(weight, nn.BatchNorm2d(out_channels), nn.ReLU())


class MDEQ(Network):
    """Stem, joint equilibrium, head.

    >>> import torch
    >>> from geq.model.model_registry import create_model
    >>> create_model("mdeq_tiny")(torch.randn(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    family = "mdeq"
    config_class = MDEQConfig
    config: MDEQConfig

    def __init__(self, config: MDEQConfig) -> None:
        super().__init__(config)
        finest, head = config.channels[0], config.head_channels
        self.stem = nn.Sequential(
            convolution(config.input_shape[0], finest, 3, config.stem_strides[0]),
            convolution(finest, finest, 3, config.stem_strides[1]),
        )
        self.equilibrium = Equilibrium(
            MDEQCell(config.channels, config.expansion, config.groups, config.feedback),
            Anderson(config.memory),
            Implicit(config.gradient_tol, config.gradient_steps),
            config.tol,
            config.max_steps,
        )
        self.lift = nn.ModuleList(
            convolution(width, out_channels, 1)
            for width, out_channels in zip(config.channels, head, strict=True)
        )
        self.down = nn.ModuleList(convolution(fine, coarse, 3, stride=2) for fine, coarse in pairwise(head))
        self.final = convolution(head[-1], config.final_channels, 1)
        self.head = nn.Linear(config.final_channels, config.num_classes)

    def check_input(self, x: Tensor) -> None:
        super().check_input(x)
        factor = 2 ** (len(self.config.channels) - 1) * math.prod(self.config.stem_strides)
        if min(x.shape[2:]) < 2 * factor or x.shape[2] % factor or x.shape[3] % factor:
            raise InputError(
                f"{len(self.config.channels)} scales need sides that {factor} divides, of {2 * factor} at "
                f"least: got {x.shape[2]}×{x.shape[3]}; pad or resize the images"
            )

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch classes"]:
        self.check_input(x)
        scales = self.equilibrium(self.stem(x))
        y = self.lift[0](scales[0])
        for lift, down, z in zip(self.lift[1:], self.down, scales[1:], strict=True):
            y = lift(z) + down(y)
        return self.head(self.final(y).mean((2, 3)))

    def last_feature_map(self) -> FeatureMap:
        return FeatureMap("fused scales", self.final)

    def branch_feature_maps(self) -> list[FeatureMap]:
        return [
            FeatureMap(f"scale {number}", self.equilibrium, part=number, equilibrium="equilibrium")
            for number in range(len(self.config.channels))
        ]


CIFAR_10M = MDEQConfig(
    (3, 32, 32),
    channels=(32, 64, 128, 256),
    head_channels=(56, 112, 224, 448),
    final_channels=512,
)
TINY = MDEQConfig(
    (1, 8, 8), channels=(8, 8), head_channels=(16, 32), final_channels=32, expansion=5, groups=2
)
SMALL = MDEQConfig(
    (3, 32, 32),
    channels=(16, 20),
    head_channels=(24, 48),
    final_channels=96,
    expansion=2,
    groups=4,
    stem_strides=(2, 2),  # as the other small networks: at full resolution a run takes ten times as long
)
SMALL_200K = replace(SMALL, channels=(32, 40), head_channels=(56, 104), final_channels=160)

_SOURCE = "Bai et al. 2020"

register(
    ModelSpec("mdeq_cifar_10m", MDEQ, CIFAR_10M, "GEQ table 1", "CIFAR-10 94.2, CIFAR-100 74.7; 10M"),
    ModelSpec("mdeq_tiny", MDEQ, TINY, _SOURCE),
    ModelSpec("mdeq_small", MDEQ, SMALL, _SOURCE),
    ModelSpec("mdeq_small_200k", MDEQ, SMALL_200K, _SOURCE),
)
