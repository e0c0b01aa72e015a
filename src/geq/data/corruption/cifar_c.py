"""CIFAR-10-C on disk: ``NAME.npy`` with the test set at severities 1 to 5 one after another.

And ``labels.npy``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.format import open_memmap

from geq.data.cifar import CIFAR10_CLASSES, CIFAR10_STATISTICS
from geq.data.corruption.registry import SEVERITIES, corrupt, corruption_names
from geq.data.dataset import ImageDataset
from geq.error import DataError, OptionError, unknown_name

FOLDER = "CIFAR-10-C"
MANIFEST = "geq.json"
CHUNK = 500
Progress = Callable[[str, int, int], None]
"""Called with a corruption's name, the images that are done and the images there will be."""


def write_cifar_c(
    dataset: ImageDataset,
    directory: Path,
    *,
    names: Sequence[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Path]:
    """Write corrupted copies of ``dataset`` in the published layout; gives the files that are new.

    A file grows as ``NAME.npy.part`` and gets its name when it is whole. After an interruption the same
    call goes on with the chunk that was under way; the result is the same, byte for byte. ``geq.json``
    remembers the source and the seed, and another source or seed in the same folder is refused.
    """
    wanted = corruption_names() if names is None else tuple(names)
    for name in wanted:
        if name not in corruption_names():
            raise unknown_name("corruption", name, corruption_names())
    directory.mkdir(parents=True, exist_ok=True)
    images = np.ascontiguousarray(dataset.images.permute(0, 2, 3, 1).numpy())
    _claim(directory, _description(dataset, seed))
    _write_labels(directory, dataset)
    made = []
    for name in wanted:
        path = directory / f"{name}.npy"
        if not path.exists():
            _write_one(images, name, seed, path, progress or (lambda name, done, total: None))
            made.append(path)
    return made


def _description(dataset: ImageDataset, seed: int) -> dict[str, Any]:
    content = hashlib.sha256(dataset.images.numpy().tobytes() + dataset.labels.numpy().tobytes())
    return {
        "made_by": "geq data corrupt",
        "source": dataset.name,
        "images": len(dataset),
        "sha256": content.hexdigest(),
        "seed": seed,
    }


def _claim(directory: Path, description: dict[str, Any]) -> None:
    manifest = directory / MANIFEST
    if manifest.exists():
        try:
            written = json.loads(manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(
                f"{manifest} cannot be read: {error}; remove the folder or choose another"
            ) from error
        if written != description:
            raise DataError(f"{directory} was begun with {written}, not {description}: choose another folder")
    elif any(directory.glob("*.npy")):
        raise DataError(f"{directory} holds corrupted images from elsewhere: choose another folder")
    else:
        _replace(manifest, json.dumps(description, indent=1).encode())


def _write_labels(directory: Path, dataset: ImageDataset) -> None:
    path = directory / "labels.npy"
    if not path.exists():
        part = path.with_name("labels.npy.part")
        with part.open("wb") as file:
            np.save(file, np.tile(dataset.labels.numpy().astype(np.uint8), len(SEVERITIES)))
        os.replace(part, path)


def _write_one(images: np.ndarray, name: str, seed: int, path: Path, report: Progress) -> None:
    part, marker = path.with_name(path.name + ".part"), path.with_name(f"{name}.done")
    count, shape = len(images), (len(SEVERITIES) * len(images), *images.shape[1:])
    done = _done_before(part, marker, shape)
    target = open_memmap(part, mode="r+" if done else "w+", dtype=np.uint8, shape=shape)
    while done < shape[0]:
        severity, first = SEVERITIES[done // count], done % count
        chunk = images[first : first + CHUNK]
        target[done : done + len(chunk)] = corrupt(chunk, name, severity, seed, first_index=first)
        target.flush()
        done += len(chunk)
        _replace(marker, str(done).encode())
        report(name, done, shape[0])
    del target
    os.replace(part, path)
    marker.unlink()


def _done_before(part: Path, marker: Path, shape: tuple[int, ...]) -> int:
    """How many images an interrupted call has left that can be trusted."""
    try:
        there = np.load(part, mmap_mode="r", allow_pickle=False)
        done = int(marker.read_text())
    except (OSError, ValueError):
        return 0
    return done if there.shape == shape and there.dtype == np.uint8 and 0 <= done <= shape[0] else 0


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def read_cifar_c(directory: Path, name: str, severity: int) -> ImageDataset:
    """One corruption at one severity, from the published files or from those of :func:`write_cifar_c`."""
    if name not in corruption_names():
        raise unknown_name("corruption", name, corruption_names())
    if severity not in SEVERITIES:
        raise OptionError(f"severity must be 1, 2, 3, 4 or 5: got {severity}")
    images, labels = _array(directory / f"{name}.npy"), _array(directory / "labels.npy")
    if (
        images.ndim != 4
        or images.shape[-1] != 3
        or len(images) % len(SEVERITIES)
        or labels.shape != images.shape[:1]
    ):
        raise DataError(
            f"{directory / name}.npy and labels.npy must hold 5 × n RGB images and as many labels: "
            f"got {images.shape} and {labels.shape}"
        )
    count = len(images) // len(SEVERITIES)
    rows = slice((severity - 1) * count, severity * count)
    return ImageDataset(
        images=torch.from_numpy(np.ascontiguousarray(images[rows].transpose(0, 3, 1, 2))),
        labels=torch.from_numpy(labels[rows].astype(np.int64)),
        classes=CIFAR10_CLASSES,
        statistics=CIFAR10_STATISTICS,
        name=f"cifar10_c/{name}/{severity}",
        split="test",
    )


def _array(path: Path) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing: run 'geq data corrupt' or 'geq data fetch cifar10_c'") from error
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} is not a whole array of numbers: {error}; write or fetch it again"
        ) from error
    if array.dtype != np.uint8:
        raise DataError(f"{path} must hold unsigned bytes: got {array.dtype}")
    return array
