"""Saved models to damage, and a network that shares tensors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from geq.model.config import NetworkConfig
from geq.model.network import Network
from geq.model.pretrained import CONFIG


def edit(saved: Path, change: Callable[[dict], object]) -> None:
    document = json.loads((saved / CONFIG).read_text())
    change(document)
    (saved / CONFIG).write_text(json.dumps(document))


class Tied(Network):
    """Two layers that share a weight, a buffer that is a view, and one sized by the first forward."""

    family = "tied"
    config_class = NetworkConfig

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        base = torch.arange(6.0)
        self.register_buffer("whole", base)
        self.register_buffer("part", base[2:4])
        self.register_buffer("seen", torch.empty(0))

    def forward(self, x: Tensor) -> Tensor:
        self.seen = x.detach()[0].clone()
        return self.second(self.first(x.flatten(1))) + self.part.sum()
