"""Tells whether a dataset is still the one that it was."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from geq.data.class_folders import FolderDataset
from geq.data.dataset import ImageDataset
from geq.data.dataset_registry import AnyDataset
from geq.data.hub import HubDataset
from geq.data.restoration import RestorationDataset
from geq.errors import DataError
from geq.safe_parsing import finite

SAMPLED = 250
"""Files whose content is read, evenly spread over a dataset; of the others the names and sizes count."""


@dataclass(frozen=True)
class Fingerprint:
    """Identity of one split, after everything that its options do to it.

    Args:
        name: Name of the dataset.
        classes: Names of the labels, in order.
        images: Number of images.
        digest: SHA-256 of labels and images. A dataset in memory counts as a whole. Of files the names and
            sizes count, and the content of :data:`SAMPLED` of them, so that ImageNet takes seconds.
    """

    name: str
    classes: tuple[str, ...]
    images: int
    digest: str

    @classmethod
    def of(cls, dataset: AnyDataset) -> Fingerprint:
        digest = hashlib.sha256()
        for part in _content(dataset):
            # The length in front: parts that are cut in another way have another digest.
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return cls(dataset.name, dataset.classes, len(dataset), digest.hexdigest())

    def as_mapping(self) -> dict[str, Any]:
        return dict(finite(asdict(self)))

    def difference(self, then: dict[str, Any]) -> str | None:
        """Return in what this differs from :meth:`as_mapping` of an earlier one; None if in nothing."""
        now = self.as_mapping()
        for key, what in (("name", "the dataset"), ("images", "the number of images")):
            if then.get(key) != now[key]:
                return f"{what} was {then.get(key)} and is {now[key]}"
        if then.get("classes") != now["classes"]:
            return _changed_classes(then.get("classes"), now["classes"])
        return None if then.get("digest") == now["digest"] else "an image or a label is another one"


def _changed_classes(then: Any, now: list[str]) -> str:
    before = then if isinstance(then, list) else []
    for label in range(max(len(before), len(now))):
        old, new = (names[label] if label < len(names) else "none" for names in (before, now))
        if old != new:
            return f"class {label} was {old} and is {new}"
    return "the classes are others"


def _content(dataset: AnyDataset) -> Iterator[bytes | memoryview]:
    if isinstance(dataset, ImageDataset):
        yield _raw(dataset.labels)
        yield _raw(dataset.images)
    elif isinstance(dataset, FolderDataset):
        yield _raw(dataset.labels)
        yield from _files(dataset.paths)
    elif isinstance(dataset, HubDataset):
        yield _raw(dataset.labels)
        yield from _cells(dataset)
    elif isinstance(dataset, RestorationDataset):
        yield dataset.damage.encode()
        yield from _content(dataset.source)
    else:
        yield from _files([path for pair in dataset.paths for path in pair])


def _raw(values: torch.Tensor) -> memoryview:
    return np.ascontiguousarray(values.numpy()).reshape(-1).view(np.uint8).data


def _spread(number: int) -> list[int]:
    """Return at most :data:`SAMPLED` indices below ``number``, evenly spread."""
    places: list[int] = np.linspace(0, number - 1, min(number, SAMPLED)).round().astype(int).tolist()
    return places


def _files(paths: tuple[Path, ...] | list[Path]) -> Iterator[bytes]:
    """Yield names and sizes of all files and the content of some.

    Not the folders: a dataset may be moved while a run is interrupted.
    """
    with _explained():
        for path in paths:
            yield os.fsencode(f"{path.name} {path.stat().st_size}")
        for index in _spread(len(paths)):
            yield paths[index].read_bytes()


def _cells(dataset: HubDataset) -> Iterator[bytes]:
    import pyarrow.compute

    chunks = dataset.table.data.column(dataset.image_column).chunks
    lengths = [pyarrow.compute.binary_length(chunk.field("bytes")) for chunk in chunks]
    # A float, as an image of which only the path is stored has no length.
    sizes = np.concatenate([length.to_numpy(zero_copy_only=False).astype("<f8") for length in lengths])
    yield sizes[dataset.indices.numpy()].tobytes()
    with _explained():
        for index in _spread(len(dataset)):
            cell = dataset.table[int(dataset.indices[index])][dataset.image_column]
            yield cell["bytes"] if cell["bytes"] is not None else Path(cell["path"]).read_bytes()


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise DataError(
            f"{problem.filename} cannot be read ({problem.strerror}): fetch or unpack the dataset again"
        ) from problem
