"""Folders of images, one folder per class: ImageNette, ImageNet-100, ImageNet and the like."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from geq.data.dataset import Indices, Split, Statistics, check_indices
from geq.data.image import SUFFIXES, read_image
from geq.error import DataError, OptionError, unknown_name

IMAGENET_STATISTICS = Statistics((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class FolderDataset:
    """Images read when they are asked for, each as the middle square of side ``size``."""

    paths: tuple[Path, ...]
    labels: Int64[Tensor, "n"]
    classes: tuple[str, ...]
    statistics: Statistics
    name: str
    split: Split
    size: int = 256

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

    def batch(self, indices: Int64[Tensor, "b"]) -> tuple[UInt8[Tensor, "b 3 size size"], Int64[Tensor, "b"]]:
        return torch.stack([self.read(index) for index in indices.tolist()]), self.labels[indices]

    def subset(self, indices: Indices) -> FolderDataset:
        chosen = check_indices(indices, len(self))
        return replace(self, paths=tuple(self.paths[i] for i in chosen.tolist()), labels=self.labels[chosen])


def read_image_folder(
    folder: Path, split: Split, *, class_list: Path | None = None, size: int = 256, name: str = "imagefolder"
) -> FolderDataset:
    """``folder``/``split``/CLASS/*.jpeg, classes in alphabetical order.

    ``class_list`` is a text file with one class folder a line (``#`` starts a comment): only those are
    taken, in that order, which is how the 100 classes of ImageNet-100 are picked out of ImageNet's 1,000.
    """
    base = folder / split
    if not base.is_dir():
        there = (
            ", ".join(sorted(p.name for p in folder.iterdir() if p.is_dir()))
            if folder.is_dir()
            else "nothing"
        )
        raise DataError(f"{name} needs the folder {base}, with one folder per class: {folder} holds {there}")
    found = sorted(path.name for path in base.iterdir() if path.is_dir() and not path.name.startswith("."))
    classes = _listed(class_list, found) if class_list else found
    if not classes:
        raise DataError(f"{base} has no class folders")
    paths: list[Path] = []
    labels: list[int] = []
    for label, kind in enumerate(classes):
        files = sorted(path for path in (base / kind).rglob("*") if path.suffix.lower() in SUFFIXES)
        if not files:
            raise DataError(
                f"{base / kind} has no images ({', '.join(SUFFIXES)}): fill or remove the folder; an empty "
                "class would shift nothing but be learned from nothing"
            )
        paths += files
        labels += [label] * len(files)
    return FolderDataset(
        tuple(paths), torch.tensor(labels), tuple(classes), IMAGENET_STATISTICS, name, split, size
    )


def _listed(class_list: Path, found: list[str]) -> list[str]:
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
