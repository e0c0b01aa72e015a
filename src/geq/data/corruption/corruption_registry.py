"""The 19 corruptions of CIFAR-10-C by name, four faults besides, and the one function that applies them."""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from geq.errors import InputError, MissingExtraError, OptionError, check_seed, unknown_name

Picture = Float[np.ndarray, "height width 3"]
"""One RGB image with values from 0 to 1."""


@dataclass(frozen=True)
class ImageCorruption:
    """``apply(image, strengths[severity - 1], random)`` may leave 0..1; the caller clips."""

    name: str
    apply: Callable[[Any, Any, np.random.Generator], Any]
    strengths: tuple[Any, ...]


GROUPS = {
    "noise": ("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"),
    "blur": ("defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "gaussian_blur"),
    "weather": ("snow", "frost", "fog", "spatter"),
    "digital": ("brightness", "contrast", "elastic_transform", "pixelate", "jpeg_compression", "saturate"),
}
FAULTS = ("occlusion", "noise_patches", "dead_lines", "hot_pixels")
"""Outliers of our own, which means and files of CIFAR-10-C never contain."""
ALL_GROUPS = {**GROUPS, "fault": FAULTS}
SEVERITIES = (1, 2, 3, 4, 5)


def corruption_names() -> tuple[str, ...]:
    """The 19 names, as the published files spell them, by group.

    >>> len(corruption_names()), corruption_names()[0]
    (19, 'gaussian_noise')
    """
    return tuple(name for names in GROUPS.values() for name in names)


def known_names() -> tuple[str, ...]:
    """Every name that :func:`corrupt` takes: the 19 and the faults."""
    return (*corruption_names(), *FAULTS)


def corrupt(
    images: UInt8[np.ndarray, "n height width colour"],
    name: str,
    severity: int,
    seed: int,
    *,
    first_index: int = 0,
) -> UInt8[np.ndarray, "n height width colour"]:
    """Corrupt RGB or grey ``images`` of any size with the constants of CIFAR-10-C.

    Lengths in pixels are those of the 32×32 files; shares of the side scale with the image. Image ``i``
    depends on (seed, name, severity, first_index + i) and on nothing else, so a set done in pieces equals a
    set done at once. A grey image is corrupted as RGB and its first channel is kept.
    """
    corruption = _corruption(name)
    severity = operator.index(severity)
    if severity not in SEVERITIES:
        raise OptionError(f"severity must be 1, 2, 3, 4 or 5: got {severity}")
    return _apply(corruption, images, corruption.strengths[severity - 1], seed, severity, first_index)


def corrupt_by(
    images: UInt8[np.ndarray, "n height width colour"], name: str, strength: Any, seed: int
) -> UInt8[np.ndarray, "n height width colour"]:
    """As :func:`corrupt`, with any ``strength`` in the unit of the corruption instead of one of five.

    >>> black_white = np.array([0, 255], dtype=np.uint8).reshape(1, 1, 2, 1)
    >>> corrupt_by(black_white, "contrast", 0.5, seed=0).ravel().tolist()
    [63, 191]
    """
    return _apply(_corruption(name), images, strength, seed, 0, 0)


def _corruption(name: str) -> ImageCorruption:
    if name not in known_names():
        raise unknown_name("corruption", name, known_names())
    return _corruptions()[name]


def _apply(
    corruption: ImageCorruption,
    images: UInt8[np.ndarray, "n height width colour"],
    strength: Any,
    seed: int,
    severity: int,
    first_index: int,
) -> UInt8[np.ndarray, "n height width colour"]:
    check_seed(seed)
    colours = images.shape[-1]
    if colours not in (1, 3):
        raise InputError(f"images must be (n, height, width, 3) or (n, height, width, 1): got {images.shape}")
    stream = [seed, zlib.crc32(corruption.name.encode()), severity]
    result = np.empty_like(images)
    for position, image in enumerate(images):
        random = np.random.default_rng([*stream, first_index + position])
        picture = np.broadcast_to(image, (*image.shape[:2], 3)) / 255.0
        changed = corruption.apply(picture, strength, random)
        # The published files cut the fraction off instead of rounding.
        result[position] = (np.clip(changed, 0, 1) * 255).astype(np.uint8)[..., :colours]
    return result


@lru_cache(maxsize=1)
def _corruptions() -> dict[str, ImageCorruption]:
    found: dict[str, ImageCorruption] = {}
    for group in GROUPS:
        try:
            module = import_module(f"geq.data.corruption.{group}")
        except ImportError as error:
            raise MissingExtraError.naming(
                error.name or "a package", "corruption", "corrupting images"
            ) from error
        found |= {corruption.name: corruption for corruption in module.CORRUPTIONS}
    return found
