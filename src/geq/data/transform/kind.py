"""Transform: a frozen record that maps a batch, with all randomness from one generator."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from jaxtyping import Float, Int64, UInt8
from torch import Generator, Tensor

from geq.errors import CheckedOptions, OptionError

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
