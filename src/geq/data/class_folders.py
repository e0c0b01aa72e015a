"""Folders of images, one folder per class: ImageNette, ImageNet-100, ImageNet and the like."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from geq.data.dataset import Indices, Statistics, check_indices
from geq.data.dataset_options import Split
from geq.data.image_reader import SUFFIXES, image_files, read_image
from geq.errors import DataError, OptionError, unknown_name

log = logging.getLogger("geq.data")

SHOWN = 10
"""Class folders that a message names."""
SPLITS = ("train", "val", "test")
IMAGENET_STATISTICS = Statistics((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class FolderDataset:
    """Images read when they are asked for, each as the middle square of side ``size``.

    ``origin`` says where they are, in words: "photos/val", "20 % of photos".
    """

    paths: tuple[Path, ...]
    labels: Int64[Tensor, " n"]
    classes: tuple[str, ...]
    statistics: Statistics
    name: str
    split: Split
    size: int = 256
    origin: str = ""

    def __post_init__(self) -> None:
        if len(self.paths) != len(self.labels):
            raise DataError(f"{self.name}: {len(self.paths)} files but {len(self.labels)} labels")
        if self.size < 1:
            raise OptionError(f"image_size must be positive: got {self.size}")

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, index: int) -> UInt8[Tensor, "3 size size"]:
        pixels = read_image(self.paths[index], self.size)
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))

    def batch(
        self, indices: Int64[Tensor, " b"]
    ) -> tuple[UInt8[Tensor, "b 3 size size"], Int64[Tensor, " b"]]:
        return torch.stack([self.read(index) for index in indices.tolist()]), self.labels[indices]

    def subset(self, indices: Indices) -> FolderDataset:
        chosen = check_indices(indices, len(self))
        return replace(self, paths=tuple(self.paths[i] for i in chosen.tolist()), labels=self.labels[chosen])


def read_image_folder(
    folder: Path, split: Split, *, class_list: Path | None = None, size: int = 256, name: str = "imagefolder"
) -> FolderDataset:
    """Read ``folder``/``split``/CLASS/*.jpeg, with the classes of ``train`` in every split.

    They are numbered in alphabetical order. A class folder that ``train`` lacks is an error; one that only
    another split lacks is a warning, and the other labels stay as they are.

    ``class_list`` is a text file with one class folder a line (``#`` starts a comment): only those are
    taken, in that order, which is how the 100 classes of ImageNet-100 are picked out of ImageNet's 1,000.
    """
    base = folder / split
    if not base.is_dir():
        there = ", ".join(subfolders(folder)) if folder.is_dir() else "nothing"
        raise DataError(f"{name} needs the folder {base}, with one folder per class: {folder} holds {there}")
    found = subfolders(base)
    classes = _classes(folder, found, class_list, name)
    if not classes:
        raise DataError(f"{folder / 'train'} has no class folders")
    strange = [kind for kind in found if kind not in classes]
    if strange and class_list is None:
        raise DataError(
            f"the class folders of {base} must be among those of {folder / 'train'}, which number the "
            f"classes: got {_some(strange)}; rename or remove what is wrong, or give a class_list"
        )
    paths: list[Path] = []
    labels: list[int] = []
    absent: list[str] = []
    for label, kind in enumerate(classes):
        files = image_files(base / kind, "**/*")
        if split == "train":
            check_class_images(base / kind, files)
        absent += [] if files else [kind]
        paths += files
        labels += [label] * len(files)
    if not paths:
        raise DataError(f"{base} has no images of the classes {_some(classes)}: fill it")
    warn_of_absent(str(base), absent)
    return FolderDataset(
        tuple(paths),
        torch.tensor(labels),
        tuple(classes),
        IMAGENET_STATISTICS,
        name,
        split,
        size,
        f"{folder.name}/{split}",
    )


def check_class_images(folder: Path, files: list[Path]) -> None:
    """Refuse a class to train on that has no images."""
    if not files:
        raise DataError(f"{folder} has no images ({', '.join(SUFFIXES)}): fill or remove the folder")


def warn_of_absent(place: str, absent: list[str]) -> None:
    """Say which classes a part of the images lacks."""
    if absent:
        log.warning(
            "%s has no images of %s; the figures are those of the other classes", place, _some(absent)
        )


def _classes(folder: Path, found: list[str], class_list: Path | None, name: str) -> list[str]:
    """Return the classes in the order of their labels, the same for every split."""
    train = folder / "train"
    if class_list is not None:
        return listed_classes(class_list, subfolders(train) if train.is_dir() else found)
    if not train.is_dir():
        raise DataError(
            f"{name} needs the folder {train}, whose class folders number the classes (for an evaluation "
            "they may be empty): make it, or give a class_list"
        )
    return subfolders(train)


def subfolders(folder: Path) -> list[str]:
    """Return the names of the folders in ``folder``, sorted, without hidden ones."""
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _some(names: list[str]) -> str:
    """Return ``names`` for a message, which stays short where there are a thousand of them."""
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown}, … {len(names)} in all"


def listed_classes(class_list: Path, found: list[str]) -> list[str]:
    """Return the class folders that a text file names, in its order."""
    try:
        lines = class_list.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the class list {class_list} cannot be read: {error}") from error
    names = [line.split("#")[0].strip() for line in lines]
    names = [name for name in names if name]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise DataError(f"{class_list} lists {', '.join(twice)} more than once")
    for name in names:
        if name not in found:
            raise DataError(f"{class_list}: {unknown_name('class folder', name, found)}")
    return names
