"""Small files in the formats of the real datasets, and the real ones where GEQ_DATA names them."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest


class OfficialPickler(pickle._Pickler):
    """Writes bytes and text as Python 2 did, which is how the official CIFAR files are pickled."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_raw(self, raw: bytes) -> None:
        self.write(pickle.BINSTRING + struct.pack("<i", len(raw)) + raw)
        self.memoize(raw)

    dispatch[bytes] = save_raw
    dispatch[str] = lambda self, text: self.write(
        pickle.BINSTRING + struct.pack("<i", len(text)) + text.encode("latin-1")
    )


def write_official(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        OfficialPickler(file, protocol=2).dump(content)


def random_images(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size=(count, 3072), dtype=np.uint8)


@pytest.fixture
def cifar10_root(tmp_path: Path) -> Path:
    """CIFAR-10 in the python layout with 20 images a file, two of each class."""
    labels = [n % 10 for n in range(20)]
    names = [f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]
    for number, name in enumerate(names):
        content = {
            "batch_label": name,
            "labels": labels,
            "data": random_images(20, number),
            "filenames": ["x.png"] * 20,
        }
        write_official(tmp_path / "cifar-10-batches-py" / name, content)
    return tmp_path


@pytest.fixture
def cifar100_root(tmp_path: Path) -> Path:
    """CIFAR-100 in the python layout: 200 images for training, 100 for testing."""
    from geq.data.cifar import COARSE_OF_FINE

    for number, (name, count) in enumerate((("train", 200), ("test", 100))):
        fine = [n % 100 for n in range(count)]
        content = {
            "fine_labels": fine,
            "coarse_labels": [COARSE_OF_FINE[n] for n in fine],
            "data": random_images(count, number),
        }
        write_official(tmp_path / "cifar-100-python" / name, content)
    return tmp_path


@pytest.fixture
def official() -> Any:
    return write_official
