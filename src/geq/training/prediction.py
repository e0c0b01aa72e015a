"""What a trained network says about image files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from geq.data.image import read_image
from geq.data.transform.pixel import Normalize
from geq.equilibrium import ignore_failures
from geq.errors import DataError
from geq.model.network import Network
from geq.training.ingredient import DataDescription

GREY = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in the brightness (ITU-R BT.601)."""


@dataclass(frozen=True)
class Prediction:
    """
    Args:
        path: of the image.
        label: the most probable class.
        confidence: its probability.
        second, second_confidence: the next one.
        steps: evaluations of the map, the most over the equilibria; None without equilibria.
        residual: the worst over the equilibria.
        converged: whether every equilibrium reached its tolerance.
    """

    path: Path
    label: str
    confidence: float
    second: str | None
    second_confidence: float | None
    steps: int | None
    residual: float | None
    converged: bool | None


def load_pictures(paths: list[Path], data: DataDescription) -> UInt8[Tensor, "b c h w"]:
    """The middle square of each file, at the size and with the channels that the network was trained on."""
    size = square_side(data)
    return in_channels(np.stack([read_image(path, size) for path in paths]), data)


def square_side(data: DataDescription) -> int:
    """Side of the images that the network was trained on."""
    _, height, width = data.shape
    if height != width:
        raise DataError(f"images of files are cut to a square; the network takes {height}×{width}")
    return height


def in_channels(rgb: UInt8[np.ndarray, "b h w 3"], data: DataDescription) -> UInt8[Tensor, "b c h w"]:
    """Pictures with the channels that the network was trained on: their colours, or their brightness."""
    channels = data.shape[0]
    pictures = torch.from_numpy(rgb.copy()).permute(0, 3, 1, 2)
    if channels == 3:
        return pictures
    if channels != 1:
        raise DataError(f"files have one or three channels; the network takes {channels}")
    weights = torch.tensor(GREY).view(1, 3, 1, 1)
    return (pictures * weights).sum(1, keepdim=True).round().clamp(0, 255).to(torch.uint8)


@torch.no_grad()
def predict(model: Network, paths: list[Path], data: DataDescription) -> list[Prediction]:
    """One prediction per file."""
    images = Normalize.by(data.statistics)(load_pictures(paths, data), torch.Generator())
    with ignore_failures(model.eval()):
        probabilities = model(images.to(next(model.parameters()))).softmax(1)
    best = probabilities.topk(min(2, len(data.classes)), dim=1)
    steps, residual, converged = solved(model, len(paths))
    return [
        Prediction(
            path,
            data.classes[int(best.indices[i, 0])],
            float(best.values[i, 0]),
            data.classes[int(best.indices[i, 1])] if best.indices.shape[1] > 1 else None,
            float(best.values[i, 1]) if best.indices.shape[1] > 1 else None,
            None if steps is None else int(steps[i]),
            None if residual is None else float(residual[i]),
            None if converged is None else bool(converged[i]),
        )
        for i, path in enumerate(paths)
    ]


def solved(model: Network, number: int) -> tuple[Tensor | None, Float[Tensor, "b"] | None, Tensor | None]:
    """Steps, residual and convergence of each image, over the equilibria of the last forward pass."""
    solutions = [layer.last_solution for layer in model.equilibria().values()]
    known = [solution for solution in solutions if solution is not None and len(solution.steps) == number]
    if not known:
        return None, None, None
    steps = torch.stack([solution.steps for solution in known]).amax(0)
    residual = torch.stack([solution.residual.float() for solution in known]).amax(0)
    return steps, residual, torch.stack([solution.converged for solution in known]).all(0)
