"""MNIST and Fashion-MNIST: idx files, plain or gzipped."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import UInt8

from geq.data.dataset import ImageDataset, Statistics
from geq.data.download_sources import find_idx_folder
from geq.errors import DataError, one_line

CLASSES = {
    "mnist": tuple("0123456789"),
    "fashion_mnist": (
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
}
STATISTICS = {
    "mnist": Statistics((0.1307,), (0.3081,)),
    "fashion_mnist": Statistics((0.2860,), (0.3530,)),
}
PREFIX = {"train": "train", "test": "t10k"}
LARGEST = 1 << 30
"""Bytes that one idx file may unpack to: twenty times the largest of the official ones."""


SMALL, RATIO = 1 << 26, 100
"""A packed file may unpack to this many bytes in any case, or to this many times its own; the official ones
have a tenth."""


def read_mnist(
    name: Literal["mnist", "fashion_mnist"], split: Literal["train", "test"], root: Path
) -> ImageDataset:
    folder = find_idx_folder(name, root)
    images = read_idx(_file(folder, f"{PREFIX[split]}-images-idx3-ubyte"), dimensions=3)
    label_path = _file(folder, f"{PREFIX[split]}-labels-idx1-ubyte")
    labels = read_idx(label_path, dimensions=1)
    if len(images) != len(labels):
        raise DataError(f"{folder}: {len(images)} images but {len(labels)} labels; fetch the files again")
    if labels.max(initial=0) >= len(CLASSES[name]):
        raise DataError(f"{label_path}: labels must lie in 0..{len(CLASSES[name]) - 1}: got {labels.max()}")
    return ImageDataset(
        images=torch.from_numpy(images[:, None].copy()),
        labels=torch.from_numpy(labels.astype(np.int64)),
        classes=CLASSES[name],
        statistics=STATISTICS[name],
        name=name,
        split=split,
    )


def _file(folder: Path, stem: str) -> Path:
    for path in (folder / f"{stem}.gz", folder / stem):
        if path.is_file():
            return path
    raise DataError(f"{folder} must hold {stem} or {stem}.gz; it does not: fetch the dataset again")


def _at_most(file: io.BufferedIOBase, size: int) -> bytes:
    """The next ``size`` bytes, or all there are. ``read(size)`` would reserve what a header merely claims."""
    parts = []
    while size and (part := file.read(min(size, 1 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_idx(path: Path, dimensions: int) -> UInt8[np.ndarray, "..."]:
    """An idx file of bytes: two zeros, the type 8, the number of dimensions, each length, the content."""
    header = 4 + 4 * dimensions
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            start = file.read(header)
            if len(start) < header or start[:4] != bytes([0, 0, 8, dimensions]):
                raise DataError(
                    f"{path} is not an idx file of bytes with {dimensions} dimensions; fetch it again"
                )
            shape = struct.unpack(f">{dimensions}I", start[4:])
            size = math.prod(shape)
            if size > min(LARGEST, max(SMALL, RATIO * path.stat().st_size)):
                raise DataError(
                    f"{path} announces {size} bytes, more than any such dataset has; it was not read"
                )
            if not size:
                raise DataError(f"{path} is empty: its header announces {shape}; fetch it again")
            content = _at_most(file, size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged or cannot be read: {one_line(error)}; fetch it again") from error
    if len(content) != size:
        longer = "more than" if len(content) > size else f"{len(content)} of"
        raise DataError(
            f"{path} holds {longer} the {size} bytes that its header {shape} announces; fetch it again"
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
