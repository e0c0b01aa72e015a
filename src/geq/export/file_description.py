"""Description that makes an exported file usable without its run and geq."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version

from geq.data.dataset import Statistics
from geq.export.portable_network import PortableNetwork

INPUT = "float32, (batch, channel, height, width), values from 0 to 1, red green blue; normalised inside"
SQUARE = (
    "RGB, upright (EXIF), the middle square resized by an antialiased bilinear filter; in Pillow, with "
    "w, h = picture.size; s = min(w, h); x, y = (w - s) // 2, (h - s) // 2: "
    "picture.resize(({width}, {height}), Image.Resampling.BILINEAR, box=(x, y, x + s, y + s)); then / 255"
)
GREY_INPUT = "; the one channel is 0.299 red + 0.587 green + 0.114 blue"
SCENE = "RGB, upright (EXIF), resized as a whole to {width}×{height} by an antialiased bilinear filter"
"""Preprocessing of a file, for classifiers and for segmenters."""


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

    def preprocessing(self, labels_pixels: bool) -> str:
        """Say how an image file becomes an input, as ``geq predict`` does it."""
        channels, height, width = self.shape
        words = (SCENE if labels_pixels else SQUARE).format(height=height, width=width)
        return words + (GREY_INPUT if channels == 1 else "")

    def properties(self, network: PortableNetwork) -> dict[str, str]:
        """Names and texts, as ONNX keeps them; what is not a text is JSON."""
        return {
            "geq_version": version("geq"),
            "model": self.model,
            "classes": json.dumps(self.classes, ensure_ascii=False),
            "input": INPUT,
            "preprocessing": self.preprocessing(network.labels_pixels),
            "shape": json.dumps(self.shape),
            "mean": json.dumps(self.statistics.mean),
            "std": json.dumps(self.statistics.std),
            "equilibria": json.dumps(network.equilibria),
            "tolerance": f"{float(network.tolerance):g}",
            "max_steps": str(int(network.max_steps)),
        }
