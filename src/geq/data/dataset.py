"""Datasets: images, labels, class names and statistics, in memory or read one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from geq.data.dataset_options import Split
from geq.errors import DataError, InputError

Indices = Int64[Tensor, "m"] | Sequence[int]


@dataclass(frozen=True)
class Statistics:
    """Mean and standard deviation of each channel, with values from 0 to 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not self.mean or min(self.std) <= 0:
            raise InputError(
                f"statistics need one mean and one positive std per channel: got {self.mean}, {self.std}"
            )

    @classmethod
    def of(cls, images: UInt8[Tensor, "n c h w"]) -> Statistics:
        """Measured over all pixels of ``images``: exact, since sums of bytes and of squares are integers."""
        pixels = images.shape[0] * images.shape[2] * images.shape[3]
        total = torch.zeros(images.shape[1], dtype=torch.int64)
        squares = torch.zeros_like(total)
        for part in images.split(1000):
            wide = part.to(torch.int32)
            total += wide.sum((0, 2, 3), dtype=torch.int64)
            squares += wide.square_().sum((0, 2, 3), dtype=torch.int64)
        mean = total.double() / (255 * pixels)
        std = (squares.double() / (255**2 * pixels) - mean**2).clamp(min=0).sqrt().clamp(min=1e-6)
        return cls(tuple(mean.tolist()), tuple(std.tolist()))


@runtime_checkable
class Dataset(Protocol):
    """Interface of a dataset for :class:`~geq.data.loader.BatchLoader`.

    ``batch(indices)`` gives uint8 images and their int64 labels: one number per image, or one mask.
    """

    @property
    def name(self) -> str: ...
    @property
    def split(self) -> Split: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def statistics(self) -> Statistics: ...
    def __len__(self) -> int: ...
    def batch(
        self, indices: Int64[Tensor, " b"]
    ) -> tuple[UInt8[Tensor, "b c h w"], Int64[Tensor, "b ..."]]: ...


@runtime_checkable
class Labelled(Dataset, Protocol):
    """A dataset with one label per image, from which images can be chosen."""

    @property
    def labels(self) -> Int64[Tensor, " n"]: ...
    def subset(self, indices: Indices) -> Labelled: ...


@dataclass(frozen=True)
class Derived:
    """Dataset that changes another one's images; subclasses add ``name`` and ``batch``."""

    source: Labelled

    @property
    def split(self) -> Split:
        return self.source.split

    @property
    def classes(self) -> tuple[str, ...]:
        return self.source.classes

    @property
    def statistics(self) -> Statistics:
        return self.source.statistics

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class ImageDataset:
    """A dataset that fits memory: one array of bytes.

    >>> tiny = ImageDataset(torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 1]), ("a", "b"),
    ...                     Statistics((0.5,), (0.5,)), "tiny", "train")
    >>> len(tiny.subset([2, 0])), tiny.subset([2, 0]).labels.tolist()
    (2, [1, 0])
    """

    images: UInt8[Tensor, "n c h w"]
    labels: Int64[Tensor, " n"]
    classes: tuple[str, ...]
    statistics: Statistics
    name: str
    split: Split

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise DataError(f"{self.name}: {len(self.images)} images but {len(self.labels)} labels")
        if len(self.labels) and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.classes):
            raise DataError(
                f"{self.name}: labels must lie in 0..{len(self.classes) - 1}: got "
                f"{int(self.labels.min())}..{int(self.labels.max())}"
            )
        if len(self.statistics.mean) != self.images.shape[1]:
            raise DataError(
                f"{self.name}: {self.images.shape[1]} channels but {len(self.statistics.mean)} means"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: Indices) -> ImageDataset:
        """The images at ``indices``, in that order; the statistics stay those of the whole."""
        chosen = check_indices(indices, len(self))
        return replace(self, images=self.images[chosen], labels=self.labels[chosen])

    def batch(self, indices: Int64[Tensor, " b"]) -> tuple[UInt8[Tensor, "b c h w"], Int64[Tensor, " b"]]:
        return self.images[indices], self.labels[indices]


def check_indices(indices: Indices, length: int) -> Int64[Tensor, " m"]:
    chosen = torch.as_tensor(indices, dtype=torch.int64)
    if chosen.numel() and not 0 <= int(chosen.min()) <= int(chosen.max()) < length:
        raise InputError(f"indices must lie in 0..{length - 1}: got {int(chosen.min())}..{int(chosen.max())}")
    return chosen
