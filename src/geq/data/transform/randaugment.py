"""RandAugment (Cubuk et al. 2020, §3) with kornia's operations on colour, drawn for each image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

import torch
from jaxtyping import Float, Int64
from torch import Generator, Tensor
from torch.nn import functional

from geq.data.transform.base import Images, Transform, as_float
from geq.errors import MissingExtraError, OptionError

Colour = Float[Tensor, "b 3 h w"]
Signed = Float[Tensor, "b"]
"""Strength of each image's operation from −1 to 1: magnitude/30 with a random sign."""

OPERATIONS = (
    *("identity", "auto_contrast", "equalize", "posterize", "solarize"),
    *("color", "contrast", "brightness", "sharpness"),
    *("rotate", "shear_x", "shear_y", "translate_x", "translate_y"),
)
FIRST_GEOMETRIC = OPERATIONS.index("rotate")
DEGREES, SHEAR, SHIFT, ENHANCE = 30.0, 0.3, 0.45, 0.9
"""At full strength: degrees, slope of the shear, share of the side.

And what is added to or taken from a factor of 1.
"""


@dataclass(frozen=True)
class RandAugment(Transform):
    """``operations`` of the 14, one after another and drawn for each image, at ``magnitude`` of 30.

    kornia's own class draws once for a whole batch. Here the images of a batch that drew the same operation
    are taken together, and all geometric ones are a single warp with a matrix for each image.
    """

    operations: int = 2
    magnitude: int = 9

    def __post_init__(self) -> None:
        if self.operations < 1 or not 0 <= self.magnitude <= 30:
            raise OptionError(
                "RandAugment needs at least one operation and a magnitude in 0..30: "
                f"got {self.operations} and {self.magnitude}"
            )

    def __call__(self, images: Images, generator: Generator) -> Float[Tensor, "b c h w"]:
        channels = images.shape[1]
        result = as_float(images)
        # Operations on colour need three channels; a grey image passes as three equal ones.
        result = result.expand(-1, 3, -1, -1).contiguous() if channels == 1 else result.clone()
        for _ in range(self.operations):
            drawn = torch.randint(len(OPERATIONS), (len(images),), generator=generator)
            sign = torch.randint(2, (len(images),), generator=generator) * 2 - 1
            result = _apply(result, drawn, sign * (self.magnitude / 30))
        return result[:, :channels]


def _apply(images: Colour, drawn: Int64[Tensor, " b"], strength: Signed) -> Colour:
    for number in range(1, FIRST_GEOMETRIC):
        chosen = torch.nonzero(drawn == number)[:, 0]
        if len(chosen):
            changed = _recolour(images[chosen], OPERATIONS[number], strength[chosen])
            images[chosen] = changed.clamp(0, 1)
    moved = torch.nonzero(drawn >= FIRST_GEOMETRIC)[:, 0]
    if len(moved):
        images[moved] = _move(images[moved], drawn[moved], strength[moved])
    return images


def _recolour(images: Colour, operation: str, strength: Signed) -> Colour:
    enhance = _kornia().enhance
    factor = 1 + ENHANCE * strength
    if operation == "auto_contrast":
        spread = images.amax((2, 3), keepdim=True) > images.amin((2, 3), keepdim=True)
        return torch.where(spread, enhance.normalize_min_max(images), images)
    if operation == "equalize":
        return enhance.equalize(images)
    if operation == "posterize":
        step = (2 ** (4 * strength.abs()).round()).view(-1, 1, 1, 1)
        return (images * 255).round().div(step, rounding_mode="floor") * step / 255
    if operation == "solarize":
        # Above white at no strength, so that white stays white.
        return torch.where(images < (1 - strength.abs()).view(-1, 1, 1, 1) * 256 / 255, images, 1 - images)
    if operation == "color":
        return enhance.adjust_saturation_with_gray_subtraction(images, factor)
    if operation == "contrast":
        return enhance.adjust_contrast_with_mean_subtraction(images, factor)
    if operation == "brightness":
        return enhance.adjust_brightness_accumulative(images, factor)
    return _sharpen(images, factor)


def _sharpen(images: Colour, factor: Signed) -> Colour:
    """Away from (factor > 1) or towards the image under a 3×3 filter; the rim, which it lacks, stays."""
    kernel = torch.ones(3, 3)
    kernel[1, 1] = 5
    smooth = functional.conv2d(images, (kernel / 13).expand(3, 1, 3, 3), groups=3)
    result = images.clone()
    inner = images[..., 1:-1, 1:-1]
    result[..., 1:-1, 1:-1] = torch.lerp(smooth, inner, factor.view(-1, 1, 1, 1))
    return result


def _move(images: Colour, drawn: Int64[Tensor, " b"], strength: Signed) -> Colour:
    """Rotation, shear or translation about the middle of each image; what comes in is black.

    One warp serves all: row i of ``matrix`` maps positions of new image i to positions of the old one, in
    coordinates where both sides go from −1 to 1, hence the aspect ratio beside the off-diagonal entries.
    """
    number, _, height, width = images.shape

    def only(operation: str, full: float) -> Signed:
        return torch.where(drawn == OPERATIONS.index(operation), full * strength, 0.0)

    angle = only("rotate", math.radians(DEGREES))
    matrix = torch.zeros(number, 2, 3)
    matrix[:, 0, 0] = matrix[:, 1, 1] = angle.cos()
    matrix[:, 0, 1] = (only("shear_x", SHEAR) - angle.sin()) * (height / width)
    matrix[:, 1, 0] = (only("shear_y", SHEAR) + angle.sin()) * (width / height)
    matrix[:, 0, 2] = -2 * only("translate_x", SHIFT)
    matrix[:, 1, 2] = -2 * only("translate_y", SHIFT)
    grid = functional.affine_grid(matrix, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


@lru_cache(maxsize=1)
def _kornia() -> ModuleType:
    try:
        import kornia
    except ImportError as error:
        raise MissingExtraError.naming("kornia", "vision", "RandAugment") from error
    return kornia
