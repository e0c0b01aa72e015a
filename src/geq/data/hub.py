"""Any image dataset of the Hugging Face hub that was saved on disk with ``datasets``."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from geq.data.dataset import Indices, Statistics, check_indices
from geq.data.dataset_options import Split
from geq.data.image_reader import decode_image
from geq.errors import DataError, MissingExtraError, one_line, unknown_name

MEASURED = 1000
"""Number of images, evenly spread, on which the statistics are measured."""
SPLIT_NAMES = {"train": ("train",), "val": ("validation", "val", "valid"), "test": ("test",)}


@dataclass(frozen=True)
class HubDataset:
    """Images decoded when they are asked for; ``size`` makes them square, without it all must be alike."""

    table: Any
    image_column: str
    labels: Int64[Tensor, " n"]
    indices: Int64[Tensor, " n"]
    classes: tuple[str, ...]
    statistics: Statistics
    name: str
    split: Split
    size: int | None = None

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, index: int) -> UInt8[Tensor, "3 h w"]:
        row = int(self.indices[index])
        return _picture(
            self.table[row][self.image_column], self.size, f"{self.name} {self.split} image {row}"
        )

    def batch(self, indices: Int64[Tensor, " b"]) -> tuple[UInt8[Tensor, "b 3 h w"], Int64[Tensor, " b"]]:
        return _stack([self.read(index) for index in indices.tolist()], self.name), self.labels[indices]

    def subset(self, indices: Indices) -> HubDataset:
        chosen = check_indices(indices, len(self))
        return replace(self, labels=self.labels[chosen], indices=self.indices[chosen])


def read_hub(
    folder: Path,
    split: Split,
    *,
    size: int | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
) -> HubDataset:
    """Read what ``datasets.Dataset.save_to_disk`` or ``DatasetDict.save_to_disk`` wrote to ``folder``.

    The columns are found by their type (Image, ClassLabel) unless they are named. The classes and the
    statistics of every split are those of ``train``, where there is one. Nothing is downloaded or executed.
    """
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError.naming("datasets", "hub", "a dataset of the Hugging Face hub") from error
    try:
        stored = datasets.load_from_disk(str(folder))
    except Exception as error:  # the library raises its own and Arrow's errors alike
        raise DataError(
            f"{folder} does not hold a dataset written by save_to_disk: {one_line(error)}"
        ) from error
    reference = stored
    if isinstance(stored, datasets.DatasetDict):
        split_name = next((name for name in SPLIT_NAMES[split] if name in stored), None)
        if split_name is None:
            raise DataError(f"{folder} has no {split} split: it has {', '.join(stored)}")
        reference = stored.get("train", stored[split_name])
        stored = stored[split_name]
    elif split != "train":
        raise DataError(f"{folder} holds one set without splits, read as 'train': there is no {split!r}")
    image = _column(stored, image_column, datasets.Image, folder)
    label = _column(stored, label_column, datasets.ClassLabel, folder)
    names = stored.features[label].names
    trained = reference.features[_column(reference, label_column, datasets.ClassLabel, folder)].names
    if names != trained:
        raise DataError(
            f"{folder}: the classes of {split!r} must be those of 'train', in the same order: got "
            f"{', '.join(names[:10])} and {', '.join(trained[:10])}; cast the label column to one ClassLabel"
        )
    for part, called in ((reference, "train"), (stored, split)):
        _check_table(part, folder)
        if len(part) == 0:
            raise DataError(f"{folder} has no images in {called!r}")
    try:
        labels = torch.tensor(stored[label][:], dtype=torch.int64)
    except Exception as error:  # a label that is missing
        raise DataError(f"{folder} is damaged: {one_line(error)}; save it again") from error
    if int(labels.min()) < 0 or int(labels.max()) >= len(names):
        raise DataError(
            f"{folder}: labels must lie in 0..{len(names) - 1}: got {int(labels.min())}..{int(labels.max())}"
        )
    measured = _pictures(reference, _column(reference, image_column, datasets.Image, folder))
    return HubDataset(
        table=_pictures(stored, image),
        image_column=image,
        labels=labels,
        indices=torch.arange(len(labels)),
        classes=tuple(names),
        statistics=_statistics(measured, size),
        name="hub",
        split=split,
        size=size,
    )


def _check_table(stored: Any, folder: Path) -> None:
    """Refuse a damaged Arrow file.

    It is mapped into memory as it is: what its offsets point at is not checked until it is read, and
    outside of the file that ends the process.
    """
    try:
        stored.data.validate(full=True)
    except Exception as error:
        raise DataError(f"{folder} is damaged: {one_line(error)}; save it again") from error


def _pictures(stored: Any, column: str) -> Any:
    """Return the images as the bytes of their files."""
    import datasets

    return stored.select_columns([column]).cast_column(column, datasets.Image(decode=False))


def _statistics(table: Any, size: int | None) -> Statistics:
    (column,) = table.features
    rows = range(0, len(table), max(1, len(table) // MEASURED))
    sample = [_picture(table[row][column], size, f"hub image {row}") for row in rows]
    return Statistics.of(_stack(sample, "hub"))


def _column(table: Any, named: str | None, kind: type, folder: Path) -> str:
    fitting = [name for name, feature in table.features.items() if isinstance(feature, kind)]
    if named is not None:
        if named not in fitting:
            raise DataError(f"{folder}: {unknown_name(f'{kind.__name__} column', named, fitting)}")
        return named
    if len(fitting) != 1:
        raise DataError(
            f"{folder} must have one {kind.__name__} column, or the option must name one: "
            f"it has {fitting or 'none'} among {', '.join(table.features)}"
        )
    return fitting[0]


def _picture(cell: dict[str, Any] | None, size: int | None, what: str) -> UInt8[Tensor, "3 h w"]:
    if cell is None or (cell.get("bytes") is None and not cell.get("path")):
        raise DataError(f"{what} is empty: remove the row")
    source = io.BytesIO(cell["bytes"]) if cell.get("bytes") is not None else Path(cell["path"])
    pixels = decode_image(source, what, size)
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


def _stack(pictures: list[Tensor], name: str) -> UInt8[Tensor, "b 3 h w"]:
    shapes = {tuple(picture.shape) for picture in pictures}
    if len(shapes) > 1:
        raise DataError(f"{name} has images of different sizes ({sorted(shapes)[:3]} …): give image_size")
    return torch.stack(pictures)
