"""CIFAR-10-C on disk: ``NAME.npy`` with the test set at severities 1 to 5 one after another.

And ``labels.npy``.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.format import open_memmap, write_array_header_1_0

from geq.atomic_io import exclusively, explained_write_errors, remove_leftovers, sync_folder, write_durably
from geq.data.cifar import CIFAR10_CLASSES, CIFAR10_STATISTICS
from geq.data.corruption.corruption_registry import SEVERITIES, corrupt, corruption_names
from geq.data.dataset import ImageDataset
from geq.errors import DataError, OptionError, one_line, unknown_name
from geq.safe_parsing import parse_json

FOLDER = "CIFAR-10-C"
MANIFEST, LABELS = "geq.json", "labels.npy"
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
    call resumes at the unfinished chunk; the result is the same, byte for byte. ``geq.json``
    remembers the source and the seed, and another source or seed in the same folder is refused.
    """
    wanted = corruption_names() if names is None else tuple(names)
    for name in wanted:
        if name not in corruption_names():
            raise unknown_name("corruption", name, corruption_names())
    description = _description(dataset, seed)
    report = progress or (lambda name, done, total: None)
    made = []
    safe = "What is whole is kept: run the command again."
    with explained_write_errors(directory, safe, "--output", DataError):
        if _is_claimed(directory, description) and not _missing(directory, wanted):
            return []  # without writing anything: the folder may be read-only
        directory.mkdir(parents=True, exist_ok=True)
        images = np.ascontiguousarray(dataset.images.permute(0, 2, 3, 1).numpy())
        with exclusively(directory):
            remove_leftovers(directory)
            if not _is_claimed(directory, description):
                write_durably(directory / MANIFEST, json.dumps(description, indent=1).encode())
            for path in _missing(directory, wanted):
                if path.name == LABELS:
                    _write_labels(path, dataset)
                else:
                    _write_one(images, path.stem, seed, path, report)
                    made.append(path)
    return made


def _missing(directory: Path, names: Sequence[str]) -> list[Path]:
    paths = [directory / LABELS, *(directory / f"{name}.npy" for name in names)]
    return [path for path in paths if not path.exists()]


def _description(dataset: ImageDataset, seed: int) -> dict[str, Any]:
    content = hashlib.sha256(dataset.images.numpy().tobytes() + dataset.labels.numpy().tobytes())
    return {
        "made_by": "geq data corrupt",
        "source": dataset.name,
        "images": len(dataset),
        "sha256": content.hexdigest(),
        "seed": seed,
    }


def _is_claimed(directory: Path, description: dict[str, Any]) -> bool:
    """Return whether the folder was begun for these images; raise an error if it belongs to others."""
    manifest = directory / MANIFEST
    if manifest.exists():
        try:
            written = parse_json(manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(
                f"{manifest} cannot be read: {error}; remove the folder or choose another"
            ) from error
        if written != description:
            raise DataError(f"{directory} was begun with {written}, not {description}: choose another folder")
    elif any(directory.glob("*.npy")):
        raise DataError(f"{directory} holds corrupted images from elsewhere: choose another folder")
    return manifest.exists()


def _write_labels(path: Path, dataset: ImageDataset) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.tile(dataset.labels.numpy().astype(np.uint8), len(SEVERITIES)))
    write_durably(path, buffer.getvalue())


def _write_one(images: np.ndarray, name: str, seed: int, path: Path, report: Progress) -> None:
    part, marker = path.with_name(path.name + ".part"), path.with_name(f"{name}.done")
    count, shape = len(images), (len(SEVERITIES) * len(images), *images.shape[1:])
    head = _head(shape)
    size = images[0].nbytes
    done = _done_before(part, marker, head, size, shape[0])
    if not done:
        marker.unlink(missing_ok=True)  # what it says is not true of the file that is begun now
    # Not through mapped memory: there a full disk is not an error but the end of the process.
    with part.open("r+b" if done else "wb") as file:
        file.write(head)
        file.seek(len(head) + done * size)
        while done < shape[0]:
            severity, first = SEVERITIES[done // count], done % count
            chunk = images[first : first + CHUNK]
            file.write(corrupt(chunk, name, severity, seed, first_index=first).tobytes())
            file.flush()
            os.fsync(file.fileno())
            done += len(chunk)
            write_durably(marker, str(done).encode())
            report(name, done, shape[0])
    os.replace(part, path)
    marker.unlink()
    sync_folder(path.parent)


def _head(shape: tuple[int, ...]) -> bytes:
    """The start of a file of bytes of this shape."""
    buffer = io.BytesIO()
    write_array_header_1_0(buffer, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def _done_before(part: Path, marker: Path, head: bytes, size: int, most: int) -> int:
    """Return the number of valid images that an interrupted call has left."""
    try:
        done = int(marker.read_text(encoding="utf-8"))
        with part.open("rb") as file:
            begins = file.read(len(head))
        there = part.stat().st_size
    except (OSError, ValueError):
        return 0
    return done if begins == head and 0 <= done <= most and there >= len(head) + done * size else 0


def read_cifar_c(directory: Path, name: str, severity: int) -> ImageDataset:
    """One corruption at one severity, from the published files or from those of :func:`write_cifar_c`."""
    if name not in corruption_names():
        raise unknown_name("corruption", name, corruption_names())
    if severity not in SEVERITIES:
        raise OptionError(f"severity must be 1, 2, 3, 4 or 5: got {severity}")
    images, labels = _array(directory / f"{name}.npy"), _array(directory / LABELS)
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
        array = open_memmap(path, mode="r")  # np.load would also open archives and pickles
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing: run 'geq data corrupt' or 'geq data fetch cifar10_c'") from error
    except Exception as error:  # a damaged header ends the reading in any way
        raise DataError(
            f"{path} is not a whole array of numbers: {one_line(error)}; write or fetch it again"
        ) from error
    if array.dtype != np.uint8:
        raise DataError(f"{path} must hold unsigned bytes: got {array.dtype}")
    return array
