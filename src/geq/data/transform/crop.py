"""Random shifts and flips, drawn for each image of a batch and applied to all at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Generator, Tensor
from torch.nn import functional

from geq.data.transform.base import Images, Transform
from geq.errors import OptionError

Offsets = Int64[Tensor, "b"]


def windows(images: Images, padding: int, down: Offsets, right: Offsets) -> Images:
    """Image i padded with black by ``padding`` and cut to its old size from row down[i], column right[i].

    All windows are one view of the padded batch, so choosing them is a single gather.
    """
    height, width = images.shape[-2:]
    padded = functional.pad(images, (padding,) * 4)
    views = padded.unfold(2, height, 1).unfold(3, width, 1)
    return views[torch.arange(len(images)), :, down, right]


def _offsets(number: int, padding: int, generator: Generator) -> tuple[Offsets, Offsets]:
    drawn = torch.randint(0, 2 * padding + 1, (2, number), generator=generator)
    return drawn[0], drawn[1]


@dataclass(frozen=True)
class CropFlip(Transform):
    """Pad by ``padding``, cut a random window of the old size, mirror half of the images."""

    padding: int = 4

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise OptionError(f"padding must not be negative: got {self.padding}")

    def __call__(self, images: Images, generator: Generator) -> Images:
        down, right = _offsets(len(images), self.padding, generator)
        mirror = torch.rand(len(images), generator=generator) < 0.5
        cut = windows(images, self.padding, down, right)
        cut[mirror] = cut[mirror].flip(-1)
        return cut


@dataclass(frozen=True)
class ShiftOnly(Transform):
    """Move each image by up to ``pixels`` in both directions.

    For digits, whose mirror image means something else.
    """

    pixels: int = 1

    def __post_init__(self) -> None:
        if self.pixels < 0:
            raise OptionError(f"pixels must not be negative: got {self.pixels}")

    def __call__(self, images: Images, generator: Generator) -> Images:
        return windows(images, self.pixels, *_offsets(len(images), self.pixels, generator))
