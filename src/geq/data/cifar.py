"""CIFAR-10 and CIFAR-100: the official python and binary layouts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int64, UInt8

from geq.data.dataset import ImageDataset, Statistics
from geq.data.download_sources import how_to_get
from geq.data.restricted_pickle import FIX, read_pickle
from geq.errors import DataError, MissingDataError

PIXELS = 3 * 32 * 32

CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
CIFAR10_STATISTICS = Statistics((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
CIFAR100_STATISTICS = Statistics((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))

SUPERCLASSES: dict[str, str] = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
"""The 20 super-classes in the order of their labels.

Each with its five sub-classes in the order of theirs.
"""

CIFAR100_CLASSES = tuple(sorted(name for names in SUPERCLASSES.values() for name in names.split()))
CIFAR100_COARSE = tuple(SUPERCLASSES)
COARSE_OF_FINE = tuple(
    next(label for label, names in enumerate(SUPERCLASSES.values()) if fine in names.split())
    for fine in CIFAR100_CLASSES
)
"""Fine label -> coarse label."""


@dataclass(frozen=True)
class CifarFiles:
    """One layout of one of the two datasets: its folder, its files by split, and how they are read.

    A record of a binary file is ``label_bytes`` bytes of labels and 3,072 of pixels; 0 means the python
    layout.
    """

    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    label_bytes: int = 0


LAYOUTS: dict[str, tuple[CifarFiles, CifarFiles]] = {
    "cifar10": (
        CifarFiles("cifar-10-batches-py", tuple(f"data_batch_{n}" for n in range(1, 6)), ("test_batch",)),
        CifarFiles(
            "cifar-10-batches-bin",
            tuple(f"data_batch_{n}.bin" for n in range(1, 6)),
            ("test_batch.bin",),
            label_bytes=1,
        ),
    ),
    "cifar100": (
        CifarFiles("cifar-100-python", ("train",), ("test",)),
        CifarFiles("cifar-100-binary", ("train.bin",), ("test.bin",), label_bytes=2),
    ),
}

Arrays = tuple[UInt8[np.ndarray, "n 3072"], Int64[np.ndarray, " n"]]


def find_layout(name: Literal["cifar10", "cifar100"], root: Path) -> CifarFiles:
    for layout in LAYOUTS[name]:
        if (root / layout.folder).is_dir():
            return layout
    folders = " or ".join(layout.folder for layout in LAYOUTS[name])
    raise MissingDataError(f"{name} is not below {root}: it must hold {folders}; {how_to_get(name)}")


def read_cifar(
    name: Literal["cifar10", "cifar100"],
    split: Literal["train", "test"],
    root: Path,
    labels: Literal["fine", "coarse"] = "fine",
) -> ImageDataset:
    """Return all images of one official split in either layout (the python one first)."""
    layout = find_layout(name, root)
    files = layout.train if split == "train" else layout.test
    coarse = labels == "coarse"
    if name == "cifar10" and coarse:
        raise DataError("cifar10 has no coarse labels: take labels='fine', or cifar100")
    classes = CIFAR10_CLASSES if name == "cifar10" else CIFAR100_COARSE if coarse else CIFAR100_CLASSES
    parts = []
    for file in files:
        path = root / layout.folder / file
        if layout.label_bytes:
            parts.append(_read_binary(path, layout.label_bytes, coarse, len(classes)))
        else:
            key = "labels" if name == "cifar10" else f"{labels}_labels"
            parts.append(_read_python(path, key, len(classes)))
    images = np.concatenate([part[0] for part in parts]).reshape(-1, 3, 32, 32)
    return ImageDataset(
        images=torch.from_numpy(images),
        labels=torch.from_numpy(np.concatenate([part[1] for part in parts])),
        classes=classes,
        statistics=CIFAR10_STATISTICS if name == "cifar10" else CIFAR100_STATISTICS,
        name=name,
        split=split,
    )


def _read_python(path: Path, key: str, classes: int) -> Arrays:
    content = read_pickle(path)
    data, labels = content.get("data"), content.get(key)
    if not isinstance(data, np.ndarray) or not isinstance(labels, list):
        raise DataError(f"{path} must hold 'data' and {key!r}: it holds {', '.join(sorted(content))}; {FIX}")
    if data.ndim != 2 or data.shape[1] != PIXELS or len(data) != len(labels) or not labels:
        raise DataError(
            f"{path} must hold images of {PIXELS} bytes and as many labels: "
            f"got {data.shape} and {len(labels)}; {FIX}"
        )
    if not all(type(label) is int and abs(label) < 1 << 62 for label in labels):
        raise DataError(f"{path} has labels that are not whole numbers; {FIX}")
    return data, _in_range(np.array(labels, dtype=np.int64), classes, path)


def _read_binary(path: Path, label_bytes: int, coarse: bool, classes: int) -> Arrays:
    if not path.is_file():
        raise DataError(f"{path} is missing; {FIX}")
    raw = np.fromfile(path, dtype=np.uint8)
    record = label_bytes + PIXELS
    if len(raw) == 0 or len(raw) % record:
        raise DataError(
            f"{path} must be a whole number of records of {record} bytes: got {len(raw)} bytes; {FIX}"
        )
    records = raw.reshape(-1, record)
    # Two label bytes are coarse, fine; one is the only label.
    label = records[:, 0 if coarse or label_bytes == 1 else 1].astype(np.int64)
    return records[:, label_bytes:], _in_range(label, classes, path)


def _in_range(labels: Int64[np.ndarray, " n"], classes: int, path: Path) -> Int64[np.ndarray, " n"]:
    if labels.min() < 0 or labels.max() >= classes:
        raise DataError(
            f"{path}: labels must lie in 0..{classes - 1}: got {labels.min()}..{labels.max()}; {FIX}"
        )
    return labels
