"""Base of the transforms, and those that draw nothing: normalisation and resizing."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Generator, Tensor
from torch.nn import functional

from geq.data.dataset import Statistics
from geq.errors import CheckedOptions, InputError, OptionError

Images = UInt8[Tensor, "b c h w"] | Float[Tensor, "b c h w"]
"""Bytes from 0 to 255, or floats from 0 to 1."""
Masks = Int64[Tensor, "b h w"]
NewImages = UInt8[Tensor, "b c new_h new_w"] | Float[Tensor, "b c new_h new_w"]
NewMasks = Int64[Tensor, "b new_h new_w"]
"""Images of the output, perhaps of another size."""


class Transform(metaclass=CheckedOptions):
    """``transform(images, generator)`` for images alone, :meth:`with_masks` where each pixel has a label."""

    @abstractmethod
    def __call__(self, images: Images, generator: Generator) -> NewImages: ...

    def with_masks(self, images: Images, masks: Masks, generator: Generator) -> tuple[NewImages, NewMasks]:
        """Moves masks along with images; a transform that cannot says so instead of leaving them behind."""
        raise OptionError(f"{type(self).__name__} moves images but not masks: use SegmentationCrop")


@dataclass(frozen=True)
class Compose(Transform):
    """One transform after another."""

    transforms: tuple[Transform, ...]

    def __call__(self, images: Images, generator: Generator) -> NewImages:
        for transform in self.transforms:
            images = transform(images, generator)
        return images

    def with_masks(self, images: Images, masks: Masks, generator: Generator) -> tuple[NewImages, NewMasks]:
        for transform in self.transforms:
            images, masks = transform.with_masks(images, masks, generator)
        return images, masks


def as_float(images: Images) -> Float[Tensor, "b c h w"]:
    """Bytes become floats from 0 to 1; floats stay."""
    return images.to(torch.float32).div_(255) if images.dtype == torch.uint8 else images


@dataclass(frozen=True)
class Normalize(Transform):
    """(x − mean) / std per channel, with x from 0 to 1. The last transform of every chain: it gives float32.

    >>> Normalize((0.5,), (0.5,))(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8), torch.Generator()).item()
    1.0
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def by(cls, statistics: Statistics) -> Normalize:
        return cls(statistics.mean, statistics.std)

    def __post_init__(self) -> None:
        Statistics(self.mean, self.std)

    def __call__(self, images: Images, generator: Generator) -> Float[Tensor, "b c h w"]:
        if images.shape[1] != len(self.mean):
            raise InputError(f"images have {images.shape[1]} channels but the statistics {len(self.mean)}")
        white = 255.0 if images.dtype == torch.uint8 else 1.0
        std = torch.tensor(self.std).view(-1, 1, 1)
        mean = torch.tensor(self.mean).view(-1, 1, 1)
        # One multiplication and one addition in place: bytes become normalised floats in two passes over
        # memory.
        return torch.mul(images, 1 / (white * std)).sub_(mean / std)

    def with_masks(
        self, images: Images, masks: Masks, generator: Generator
    ) -> tuple[Float[Tensor, "b c h w"], Masks]:
        return self(images, generator), masks


@dataclass(frozen=True)
class Resize(Transform):
    """To ``height`` × ``width`` (square if ``width`` is 0), bilinear with antialiasing.

    Masks take the nearest label.
    """

    height: int
    width: int = 0

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 0:
            raise OptionError(f"a size must be positive: got {self.height} × {self.width}")

    @property
    def size(self) -> tuple[int, int]:
        return self.height, self.width or self.height

    def __call__(self, images: Images, generator: Generator) -> NewImages:
        return functional.interpolate(images, self.size, mode="bilinear", antialias=True, align_corners=False)

    def with_masks(self, images: Images, masks: Masks, generator: Generator) -> tuple[NewImages, NewMasks]:
        # Labels up to 255 are exact in float32, which interpolation needs.
        labels = functional.interpolate(masks[:, None].float(), self.size, mode="nearest-exact")
        return self(images, generator), labels[:, 0].long()
