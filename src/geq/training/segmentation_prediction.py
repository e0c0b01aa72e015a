"""Segmentation of image files: a mask of the file's own size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from geq.data.class_colours import colours_of
from geq.data.image_reader import read_image
from geq.data.transform.base import Normalize
from geq.equilibrium import ignore_failures
from geq.errors import OptionError
from geq.model.network import Network
from geq.training.prediction import solved
from geq.training.segmentation_masks import overlay, with_legend, write_mask, write_picture
from geq.training.setup import DataDescription
from geq.training.sliding_window import Inference


@dataclass(frozen=True)
class ScenePrediction:
    """
    Args:
        path: of the image.
        mask, overlay: files that were written.
        shares: class -> share of the pixels, the largest first; classes that do not occur are left out.
        steps, residual, converged: of the equilibria, the worst over windows; None without equilibria.
    """

    path: Path
    mask: Path
    overlay: Path
    shares: dict[str, float]
    steps: int | None
    residual: float | None
    converged: bool | None


def predict_scenes(
    model: Network,
    paths: list[Path],
    data: DataDescription,
    inference: Inference | None = None,
    output: Path | None = None,
) -> list[ScenePrediction]:
    """Write the mask and the overlay of each file next to it or into the folder ``output``."""
    targets = [_targets(path, output) for path in paths]
    if len(set(targets)) < len(targets):
        raise OptionError(
            "images of one name would overwrite each other's masks: give each an --output of its own"
        )
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    return [
        _predict(model, path, data, inference or Inference(), *target)
        for path, target in zip(paths, targets, strict=True)
    ]


def _targets(path: Path, output: Path | None) -> tuple[Path, Path]:
    folder = path.parent if output is None else output
    return folder / f"{path.stem}.mask.png", folder / f"{path.stem}.overlay.png"


@torch.no_grad()
def _predict(
    model: Network,
    path: Path,
    data: DataDescription,
    inference: Inference,
    mask_path: Path,
    overlay_path: Path,
) -> ScenePrediction:
    picture = read_image(path)
    passes: list[tuple[Tensor | None, Tensor | None, Tensor | None]] = []
    with ignore_failures(model.eval()):
        logits = inference.logits(
            model, _prepared(picture, model, data), lambda: passes.append(solved(model, 1))
        )
    height, width = picture.shape[:2]
    logits = functional.interpolate(logits, (height, width), mode="bilinear")
    mask = logits[0, : len(data.classes)].argmax(0).to(torch.uint8).cpu().numpy()
    colours = colours_of(data.name, data.classes)
    write_mask(mask_path, mask, colours)
    write_picture(overlay_path, with_legend(overlay(picture, mask, colours), data.classes, colours))
    counts = np.bincount(mask.ravel(), minlength=len(data.classes))
    steps = [int(found.max()) for found, _, _ in passes if found is not None]
    residuals = [float(found.max()) for _, found, _ in passes if found is not None]
    converged = [bool(found.all()) for _, _, found in passes if found is not None]
    return ScenePrediction(
        path,
        mask_path,
        overlay_path,
        {
            data.classes[k]: float(counts[k] / mask.size)
            for k in np.argsort(-counts, kind="stable")
            if counts[k]
        },
        max(steps) if steps else None,
        max(residuals) if residuals else None,
        all(converged) if converged else None,
    )


def _prepared(picture: np.ndarray, model: Network, data: DataDescription) -> Tensor:
    """Normalised, at the height of the training images: what is near must look as large as it did there."""
    image = torch.from_numpy(picture.copy()).permute(2, 0, 1)[None]
    height, width = picture.shape[:2]
    wanted = data.shape[1]
    scaled: Tensor = image
    if height != wanted:
        size = (wanted, max(1, round(width * wanted / height)))
        scaled = functional.interpolate(image.float() / 255, size, mode="bilinear", antialias=True)
    normalised = Normalize.by(data.statistics)(scaled, torch.Generator())
    return normalised.to(next(model.parameters()))
