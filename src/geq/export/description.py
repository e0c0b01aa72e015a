"""What a file must say about itself, so that nobody needs the run or geq to use it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version

from geq.data.dataset import Statistics
from geq.export.portable import PortableNetwork

INPUT = "float32, (batch, channel, height, width), values from 0 to 1, red green blue; normalised inside"


@dataclass(frozen=True)
class Description:
    """
    Args:
        model: name in the registry.
        classes: names of the logits, in order.
        statistics: of the normalisation, which the file applies.
        shape: channels, height and width of an image.
    """

    model: str
    classes: tuple[str, ...]
    statistics: Statistics
    shape: tuple[int, int, int]

    def properties(self, network: PortableNetwork) -> dict[str, str]:
        """Names and texts, as ONNX keeps them; what is not a text is JSON."""
        return {
            "geq_version": version("geq"),
            "model": self.model,
            "classes": json.dumps(self.classes, ensure_ascii=False),
            "input": INPUT,
            "shape": json.dumps(self.shape),
            "mean": json.dumps(self.statistics.mean),
            "std": json.dumps(self.statistics.std),
            "equilibria": json.dumps(network.equilibria),
            "tolerance": f"{float(network.tolerance):g}",
            "max_steps": str(int(network.max_steps)),
        }
