"""The networks inside the estimators: one equilibrium between the input and a linear head.

Neither has a norm over the batch, so that rows do not influence each other in training: sample weights mean
what they say, and a batch of one row is as good as any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from geq.equilibrium import Equilibrium
from geq.model.network import EquilibriumReport
from geq.operators.operator import Size

LARGEST_MAP = 16
"""The stem of an image network halves the map until its shorter side is at most this."""
POOL = 4
"""Side to which the head of an image network pools."""

MakeLayer = Callable[[int, int], Equilibrium]
"""(in, out) sizes -> the equilibrium."""


@dataclass(frozen=True)
class Layers:
    """The two forms of one equilibrium."""

    linear: MakeLayer
    conv: MakeLayer


class EstimatorNetwork(nn.Module):
    """Base of both networks: the equilibrium, and its statistics in the last prediction."""

    equilibrium: Equilibrium

    map_size: Size | None = None
    """Height and width of the equilibrium's maps."""

    report: EquilibriumReport | None = None
    """Over all rows of the last prediction."""


class TabularNetwork(EstimatorNetwork):
    """linear(norm(equilibrium(x))) + linear(x).

    The equilibrium's own U embeds the features; its state is small where the kernel sees outliers, so a norm
    over the state's entries follows. It bounds what the head can say, so a linear map of x, which starts at
    0, is added: what is linear in the data needs no equilibrium, and may grow with x.
    """

    def __init__(self, layers: Layers, features: int, width: int, outputs: int) -> None:
        super().__init__()
        self.equilibrium = layers.linear(features, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, outputs)
        self.direct = nn.Linear(features, outputs, bias=False)
        nn.init.zeros_(self.direct.weight)

    def forward(self, x: Float[Tensor, "batch features"]) -> Float[Tensor, "batch outputs"]:
        return self.head(self.norm(self.equilibrium(x))) + self.direct(x)


class ImageNetwork(EstimatorNetwork):
    """Images → convolution(s), norm, ReLU → equilibrium → norm, ReLU → pool → linear.

    The norms are over all entries of one image (group norm with a single group). The stem has one
    convolution, and one more of stride 2 for each time that the map is halved. Maps of odd size are padded by
    a row and a column of zeros, since the patches of the kernel are 2×2.
    """

    def __init__(self, layers: Layers, shape: tuple[int, int, int], width: int, outputs: int) -> None:
        super().__init__()
        channels, height, breadth = shape
        self.stem = nn.Sequential(*convolution(channels, width, stride=1))
        while min(height, breadth) > LARGEST_MAP:
            self.stem.extend(convolution(width, width, stride=2))
            height, breadth = -(-height // 2), -(-breadth // 2)
        self.equilibrium = layers.conv(width, width)
        self.map_size = (height + height % 2, breadth + breadth % 2)
        self.norm = nn.GroupNorm(1, width)
        self.pool = (min(POOL, height), min(POOL, breadth))
        self.head = nn.Linear(width * self.pool[0] * self.pool[1], outputs)

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch outputs"]:
        x = self.stem(x)
        x = F.pad(x, (0, x.shape[-1] % 2, 0, x.shape[-2] % 2))
        z = self.norm(self.equilibrium(x)).relu()
        return self.head(F.adaptive_avg_pool2d(z, self.pool).flatten(1))


def convolution(channels: int, width: int, stride: int) -> list[nn.Module]:
    return [
        nn.Conv2d(channels, width, 3, stride, padding=1, bias=False),
        nn.GroupNorm(1, width),
        nn.ReLU(),
    ]
