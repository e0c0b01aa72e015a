"""Images to be restored: four kinds of damage, and a dataset whose labels are the clean images.

Damage is done to floats from 0 to 1, at places that are drawn anew whenever a batch is made: training images
are damaged otherwise in each epoch. A batch of an evaluation depends on its number alone, so that all
networks see the same test images.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Generator, Tensor

from geq.data.dataset import ImageDataset, Indices, Split, Statistics
from geq.errors import DataError, unknown_name

DamageName = Literal["impulses", "salt_and_pepper", "blocks", "noise"]
DAMAGES: tuple[DamageName, ...] = get_args(DamageName)

SHARE = 0.2
"""Of the pixels, or of the blocks, that are outliers."""
BLOCK = 4
"""Side of a block in pixels."""
SIGMA = 25 / 255
"""Standard deviation of the noise, which is not clipped, as is usual in the literature on denoising."""
CHANNELS = {1: ("grey",), 3: ("red", "green", "blue")}


def damaged(images: Float[Tensor, "b c h w"], damage: str, generator: Generator) -> Float[Tensor, "b c h w"]:
    """Return damaged images.

    Args:
        images: Values from 0 to 1.
        damage: ``impulses``: a fifth of the pixels have random colours. ``salt_and_pepper``: a fifth of the
            pixels are white or black. ``blocks``: a fifth of the aligned 4×4 blocks, rounded up, are covered
            by one random colour each. ``noise``: independent Gaussian noise of σ = 25/255 everywhere.
        generator: Source of all randomness.

    >>> dark = torch.zeros(1, 1, 8, 8)
    >>> int((damaged(dark, "blocks", torch.Generator().manual_seed(0)) > 0).sum())
    16
    """
    if damage not in DAMAGES:
        raise unknown_name("damage", damage, DAMAGES)
    number, _, height, width = images.shape
    if damage == "noise":
        return images + SIGMA * torch.randn(images.shape, generator=generator)
    if damage == "blocks":
        return _covered(images, generator)
    hit = torch.rand((number, 1, height, width), generator=generator) < SHARE
    if damage == "impulses":
        return torch.where(hit, torch.rand(images.shape, generator=generator), images)
    white = torch.rand((number, 1, height, width), generator=generator) < 0.5
    return torch.where(hit, white.to(images.dtype), images)


def _covered(images: Float[Tensor, "b c h w"], generator: Generator) -> Float[Tensor, "b c h w"]:
    number, channels, height, width = images.shape
    if height % BLOCK or width % BLOCK:
        raise DataError(
            f"images must consist of {BLOCK}×{BLOCK} blocks to be covered by such: got {height}×{width}; "
            "take another damage"
        )
    rows, columns = height // BLOCK, width // BLOCK
    order = torch.rand((number, rows * columns), generator=generator).argsort(1)
    hit = (order < -(-rows * columns * SHARE // 1)).view(number, 1, rows, columns)
    colours = torch.rand((number, channels, rows, columns), generator=generator)

    def enlarged(maps: Tensor) -> Tensor:
        return maps.repeat_interleave(BLOCK, 2).repeat_interleave(BLOCK, 3)

    return torch.where(enlarged(hit), enlarged(colours), images)


@dataclass(frozen=True)
class RestorationDataset:
    """Images whose labels are themselves: what a restorer should make of the damaged ones.

    The loader damages the images by :class:`~geq.data.transform.damage.Damaging`; ``classes`` are the
    colours.

    Args:
        source: Clean images.
        damage: What is done to them.
    """

    source: ImageDataset
    damage: DamageName

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def split(self) -> Split:
        return self.source.split

    @property
    def classes(self) -> tuple[str, ...]:
        return CHANNELS[self.source.images.shape[1]]

    @property
    def statistics(self) -> Statistics:
        """Those of values that stay as they are, from 0 to 1."""
        channels = len(self.classes)
        return Statistics((0.0,) * channels, (1.0,) * channels)

    def __len__(self) -> int:
        return len(self.source)

    def subset(self, indices: Indices) -> RestorationDataset:
        return replace(self, source=self.source.subset(indices))

    def batch(
        self, indices: Int64[Tensor, " b"]
    ) -> tuple[UInt8[Tensor, "b c h w"], Int64[Tensor, "b c h w"]]:
        images, _ = self.source.batch(indices)
        return images, images.long()
