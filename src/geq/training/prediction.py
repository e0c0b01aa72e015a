"""A trained network that takes pictures as people have them, and what it says about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from geq.data.image_reader import middle_square, read_image, rgb_pixels
from geq.data.transform.base import Normalize
from geq.equilibrium import ignore_failures
from geq.errors import DataError, InputError, OptionError
from geq.frozen import freeze
from geq.model.network import Network
from geq.training.run_folder import RunFolder
from geq.training.setup import DataDescription

if TYPE_CHECKING:
    from PIL.Image import Image

GREY = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in the brightness (ITU-R BT.601)."""
BATCH = 250
"""Images per batch; results do not depend on it."""


@dataclass(frozen=True)
class Prediction:
    """Prediction of a network for one image.

    Args:
        label: the most probable class.
        confidence: its probability.
        probabilities: of every class, in the order of the classes.
        steps: evaluations of the map, the most over the equilibria; None without equilibria.
        residual: the worst over the equilibria.
        converged: whether every equilibrium reached its tolerance.
        path: of the image, where it is a file.
    """

    label: str
    confidence: float
    probabilities: dict[str, float]
    steps: int | None = None
    residual: float | None = None
    converged: bool | None = None
    path: Path | None = None

    def __str__(self) -> str:
        unsolved = ", not converged" if self.converged is False else ""
        return f"{self.label} ({100 * self.confidence:.1f} %{unsolved})"

    def top(self, number: int) -> list[tuple[str, float]]:
        """Return the most probable classes with their probabilities, the best first."""
        return sorted(self.probabilities.items(), key=lambda item: -item[1])[:number]


@dataclass(frozen=True)
class Predictor:
    """A trained network with the classes, the image size and the normalisation of its training.

    Args:
        network: the network; it is frozen (:func:`geq.freeze`), so call its ``train()`` to change weights.
        data: what it was trained on.
    """

    network: Network
    data: DataDescription

    def __post_init__(self) -> None:
        freeze(self.network)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.data.classes

    def __repr__(self) -> str:
        name = self.network.registry_name or type(self.network).__name__
        size = "×".join(map(str, self.data.shape))
        return f"Predictor({name} trained on {self.data.name}: {len(self.classes)} classes, images of {size})"

    @overload
    def predict(self, images: str | Path | Image) -> Prediction: ...
    @overload
    def predict(self, images: list[Any] | tuple[Any, ...]) -> list[Prediction]: ...
    @overload
    def predict(self, images: Any) -> Any: ...

    def predict(self, images: Any) -> Any:
        """Return a :class:`Prediction` of one image, or a list of them for several.

        Args:
            images: a file, a Pillow image, an array (height, width) or (height, width, 3), or a tensor
                (channels, height, width), of bytes or of values from 0 to 1. Several: a list or another
                iterable of these, an array or a tensor with a batch axis in front.

        Each image is cut to its middle square, resized and normalised as the training images were.

        >>> digits = load("geq-digits")
        >>> found = digits.predict(np.zeros((20, 30, 3), np.uint8))
        >>> found.label in digits.classes, round(sum(found.probabilities.values()), 4)
        (True, 1.0)
        """
        items = several(images)
        if items is None:
            return self._predict([images])[0]
        return [prediction for batch in batched(items) for prediction in self._predict(batch)]

    def read(self, image: Any) -> UInt8[Tensor, "1 c h w"]:
        """Return one image as the network takes it, before the normalisation."""
        return fitted(image, self.data)

    @torch.no_grad()
    def _predict(self, images: Sequence[Any]) -> list[Prediction]:
        pixels = torch.cat([self.read(image) for image in images])
        normalised = Normalize.by(self.data.statistics)(pixels, torch.Generator())
        with ignore_failures(self.network.eval()):
            logits = self.network(normalised.to(next(self.network.parameters())))
        probabilities = logits.softmax(1)[:, : len(self.classes)].double().tolist()
        steps, residual, converged = solved(self.network, len(images))
        return [
            Prediction(
                self.classes[int(np.argmax(row))],
                max(row),
                dict(zip(self.classes, row, strict=True)),
                None if steps is None else int(steps[i]),
                None if residual is None else float(residual[i]),
                None if converged is None else bool(converged[i]),
                Path(image) if isinstance(image, (str, Path)) else None,
            )
            for i, (image, row) in enumerate(zip(images, probabilities, strict=True))
        ]

    def predict_readable(self, paths: Iterable[Path]) -> Iterator[Prediction | DataError]:
        """Predict files one after the other; the error in the place of one that cannot be read."""
        for batch in batched(paths):
            found: list[Tensor | DataError] = [_read_or_error(self, path) for path in batch]
            images = [item[0] for item in found if isinstance(item, Tensor)]
            predictions = iter(self._predict(images) if images else [])
            for path, item in zip(batch, found, strict=True):
                yield item if isinstance(item, DataError) else replace(next(predictions), path=path)


def _read_or_error(predictor: Predictor, path: Path) -> Tensor | DataError:
    try:
        return predictor.read(path)
    except DataError as problem:
        return problem


def load(name: str | Path, runs: str | Path = "runs") -> Predictor:
    """Load a trained network that classifies images: ``geq.load("geq-digits").predict("photo.png")``.

    Args:
        name: a name of ``geq weights``, the folder of a run, or its name below ``runs``.
        runs: folder of the runs.
    """
    folder = RunFolder.find(name, runs)
    network = Network.from_pretrained(folder.model)
    if network.labels_pixels:
        raise OptionError(
            f"geq.load is for classifiers; {folder.title} is a segmenter: use "
            "'geq predict' or geq.training.segmentation_prediction.predict_scenes"
        )
    return Predictor(network, folder.data())


def several(images: Any) -> Iterable[Any] | None:
    """Return the images one by one; None for what is a single image.

    >>> several("a.png") is None, several(["a.png"]), several(np.zeros((8, 8))) is None
    (True, ['a.png'], True)
    """
    if isinstance(images, (str, Path)):
        return None
    if isinstance(images, (np.ndarray, Tensor)):
        return images if images.ndim == 4 else None
    return images if isinstance(images, Iterable) else None


def batched(items: Iterable[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def as_bytes(image: np.ndarray | Tensor) -> UInt8[Tensor, "c h w"]:
    """Return an array (its channels last) or a tensor (its channels first) as bytes, with 1 or 3 channels."""
    if isinstance(image, np.ndarray):
        layout = "an array of shape (height, width), (height, width, 1) or (height, width, 3)"
        pixels = torch.from_numpy(np.ascontiguousarray(image))
        pixels = pixels[None] if pixels.ndim == 2 else pixels.movedim(-1, 0) if pixels.ndim == 3 else pixels
    else:
        layout = "a tensor of shape (height, width), (1, height, width) or (3, height, width)"
        pixels = image.detach().cpu()
        pixels = pixels[None] if pixels.ndim == 2 else pixels
    if pixels.ndim != 3 or pixels.shape[0] not in (1, 3) or 0 in pixels.shape:
        raise InputError(f"an image must be {layout}: got {tuple(image.shape)}")
    if pixels.dtype == torch.uint8:
        return pixels
    low, high = (float(pixels.min()), float(pixels.max())) if pixels.dtype != torch.bool else (0.0, 1.0)
    if not pixels.is_floating_point() or not (low >= 0 and high <= 1):
        raise InputError(
            "an image must hold bytes (uint8), or floating-point values from 0 to 1, which are normalised "
            f"inside: got {image.dtype} from {low:g} to {high:g}"
        )
    return (255 * pixels.double()).round().to(torch.uint8)


def fitted(image: Any, data: DataDescription) -> UInt8[Tensor, "1 c h w"]:
    """Return an image of any kind at the size and with the channels that a network was trained on.

    It is cut to its middle square and resized; one of that size already is taken as it is.
    """
    side = square_side(data)
    if isinstance(image, (str, Path)):
        return in_channels(read_image(Path(image), side)[None], data)
    if not isinstance(image, (np.ndarray, Tensor)):
        return in_channels(middle_square(rgb_pixels(image), side)[None], data)
    pixels = as_bytes(image)
    if tuple(pixels.shape) == data.shape:
        return pixels[None]
    rgb = pixels.permute(1, 2, 0).expand(-1, -1, 3).contiguous().numpy()
    return in_channels(middle_square(rgb, side)[None], data)


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


def solved(model: Network, number: int) -> tuple[Tensor | None, Float[Tensor, " b"] | None, Tensor | None]:
    """Steps, residual and convergence of each image, over the equilibria of the last forward pass."""
    solutions = [layer.last_solution for layer in model.equilibria().values()]
    known = [solution for solution in solutions if solution is not None and len(solution.steps) == number]
    if not known:
        return None, None, None
    steps = torch.stack([solution.steps for solution in known]).amax(0)
    residual = torch.stack([solution.residual.float() for solution in known]).amax(0)
    return steps, residual, torch.stack([solution.converged for solution in known]).all(0)
