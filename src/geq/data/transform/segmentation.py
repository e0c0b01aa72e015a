"""Random scale, crop and flip of images together with their masks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from torch.nn import functional

from geq.data.segmentation import IGNORE
from geq.data.transform.base import Images, Masks, NewImages, NewMasks, Transform, as_float
from geq.errors import OptionError


@dataclass(frozen=True)
class SegmentationCrop(Transform):
    """Enlarge by a factor from ``scale``, cut a random window of ``height`` × ``width``, mirror half of the
    images.

    One grid of positions per image serves the image (bilinear) and its mask (nearest), so both move alike.
    What lies outside the image is black, and ignored in the mask.
    """

    height: int
    width: int
    scale: tuple[float, float] = (0.5, 2.0)
    flip: bool = True

    def __post_init__(self) -> None:
        low, high = self.scale
        if self.height < 1 or self.width < 1 or not 0 < low <= high:
            raise OptionError(
                "a crop needs a positive size and scales 0 < low ≤ high: "
                f"got {self.height} × {self.width}, {self.scale}"
            )

    def __call__(self, images: Images, generator: Generator) -> NewImages:
        return self._image(images, self._grid(images, generator))

    def with_masks(self, images: Images, masks: Masks, generator: Generator) -> tuple[NewImages, NewMasks]:
        grid = self._grid(images, generator)
        # grid_sample fills the outside with 0: shift the labels so that 0 means IGNORE. They are exact in
        # float32.
        shifted = (masks[:, None] - IGNORE).float()
        labels = functional.grid_sample(shifted, grid, mode="nearest", align_corners=False)
        return self._image(images, grid), labels[:, 0].long() + IGNORE

    def _image(self, images: Images, grid: Float[Tensor, "b y x 2"]) -> Float[Tensor, "b c y x"]:
        return functional.grid_sample(as_float(images), grid, mode="bilinear", align_corners=False)

    def _grid(self, images: Images, generator: Generator) -> Float[Tensor, "b y x 2"]:
        """Positions in grid_sample's coordinates, where −1 and 1 are the outer edges of the image."""
        number = len(images)
        low, high = self.scale
        scale = low + (high - low) * torch.rand(number, generator=generator)
        place = torch.rand(number, 2, generator=generator)
        mirror = (
            torch.where(torch.rand(number, generator=generator) < 0.5, -1.0, 1.0)
            if self.flip
            else torch.ones(number)
        )
        axes = []
        for length, extent, at in (
            (self.width, images.shape[-1], place[:, 0]),
            (self.height, images.shape[-2], place[:, 1]),
        ):
            # Share of the image that the window covers; above 1 the image lies somewhere inside the window.
            share = length / (extent * scale)
            centre = (2 * at - 1) * (1 - share).abs()
            steps = (torch.arange(length) + 0.5) * 2 / length - 1
            axes.append(centre[:, None] + share[:, None] * steps)
        across, down = axes
        across = across * mirror[:, None]
        return torch.stack(
            (
                across[:, None, :].expand(-1, self.height, -1),
                down[:, :, None].expand(-1, -1, self.width),
            ),
            dim=-1,
        )
