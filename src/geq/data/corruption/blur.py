"""Loss of focus and movement: Gaussian, defocus, glass, motion and zoom blur."""

from __future__ import annotations

import math
from functools import lru_cache

import cv2
import numpy as np
from jaxtyping import Float, Float32
from scipy.ndimage import gaussian_filter

from geq.data.corruption.corruption_registry import ImageCorruption, Picture

Layer = Float[np.ndarray, "height width *colour"]
Grid = Float32[np.ndarray, "height width"]


def smooth(image: Picture, deviation: float) -> Picture:
    """A Gaussian filter in the two directions of space, not across colours."""
    return np.asarray(gaussian_filter(image, sigma=(deviation, deviation, 0), mode="nearest", truncate=4.0))


def gaussian_blur(image: Picture, deviation: float, random: np.random.Generator) -> Picture:
    return smooth(image, deviation)


def disk(radius: float, deviation: float) -> Float[np.ndarray, "side side"]:
    """A lens's circle of confusion, its rim softened by a 3×3 Gaussian of ``deviation`` pixels."""
    reach = math.ceil(radius) + 2
    offsets = np.arange(-reach, reach + 1)
    inside = offsets[:, None] ** 2 + offsets[None, :] ** 2 <= radius**2
    return np.asarray(cv2.GaussianBlur(inside / inside.sum(), ksize=(3, 3), sigmaX=deviation))


def defocus_blur(image: Picture, lens: tuple[float, float], random: np.random.Generator) -> Picture:
    """Convolution with a disk; ``lens`` is its radius and the softness of its rim."""
    return np.asarray(cv2.filter2D(image, -1, disk(*lens)))


def glass_blur(image: Picture, glass: tuple[float, int, int], random: np.random.Generator) -> Picture:
    """Each pixel takes the value of a near one, between two light Gaussian filters, as through frosted glass.

    ``glass`` is the filter's deviation, the reach of a move and the number of passes. A pass runs from the
    lower right to the upper left and copies, as the published files did: a value can be carried far, and
    others are lost.
    """
    deviation, reach, passes = glass
    height, width = image.shape[:2]
    source = np.arange(height * width).reshape(height, width).tolist()
    for _ in range(passes):
        rows = range(height - reach, reach, -1)
        columns = range(width - reach, reach, -1)
        moves = random.integers(-reach, reach, size=(len(rows), len(columns), 2)).tolist()
        for row, moves_of_row in zip(rows, moves, strict=True):
            for column, (right, down) in zip(columns, moves_of_row, strict=True):
                source[row][column] = source[row + down][column + right]
    moved = smooth(image, deviation).reshape(height * width, -1)[np.asarray(source).ravel()]
    return smooth(moved.reshape(image.shape), deviation)


def motion_kernel(radius: int, deviation: float, angle: float) -> Float[np.ndarray, "side side"]:
    """Half a Gaussian along a ray: what a moving camera leaves of a point. ``angle`` is in degrees.

    A point of the ray gives its weight to the nearest pixel, and is dropped where the kernel ends.
    """
    kernel = np.zeros((2 * radius + 1, 2 * radius + 1))
    for step in range(2 * radius + 1):
        weight = math.exp(-(step**2) / (2 * deviation**2))
        down = radius + step * math.sin(math.radians(angle))
        right = radius + step * math.cos(math.radians(angle))
        row, column = math.floor(down + 0.5), math.floor(right + 0.5)
        if 0 <= row < len(kernel) and 0 <= column < len(kernel):
            kernel[row, column] += weight
    return kernel / kernel.sum()


def streak(layer: Layer, radius: int, deviation: float, angle: float) -> Layer:
    kernel = motion_kernel(radius, deviation, angle)
    return np.asarray(cv2.filter2D(layer, -1, kernel, borderType=cv2.BORDER_REPLICATE))


def motion_blur(image: Picture, motion: tuple[int, float], random: np.random.Generator) -> Picture:
    """A streak of ``motion`` = (radius.

    Deviation) in a random direction within 45 degrees of the horizontal.
    """
    return streak(image, *motion, angle=random.uniform(-45, 45))


def enlarge(layer: Layer, factor: float) -> Layer:
    """The middle of ``layer``, enlarged to the size of the whole; its corners map to corners."""
    rows, columns = _enlarged_grid(layer.shape[0], layer.shape[1], factor)
    return np.asarray(cv2.remap(layer, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE))


@lru_cache(maxsize=64)
def _enlarged_grid(height: int, width: int, factor: float) -> tuple[Grid, Grid]:
    rows, columns = np.meshgrid(_enlarged_axis(height, factor), _enlarged_axis(width, factor), indexing="ij")
    return rows, columns


def _enlarged_axis(length: int, factor: float) -> Float32[np.ndarray, " length"]:
    """Return the position of each of the ``length`` new pixels on the old axis."""
    inner = math.ceil(length / factor)
    large = round(inner * factor)
    positions = (large - length) // 2 + np.arange(length)
    return ((length - inner) // 2 + positions * (inner - 1) / max(large - 1, 1)).astype(np.float32)


def zoom_blur(image: Picture, furthest: float, random: np.random.Generator) -> Picture:
    """The mean of the image and its enlargements 1, 1.01, …, ``furthest``."""
    factors = 1 + 0.01 * np.arange(round((furthest - 1) * 100) + 1)
    total = image + sum(enlarge(image, float(factor)) for factor in factors)
    return np.asarray(total / (len(factors) + 1))


CORRUPTIONS = (
    ImageCorruption("gaussian_blur", gaussian_blur, (0.4, 0.6, 0.7, 0.8, 1.0)),
    ImageCorruption(
        "defocus_blur", defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))
    ),
    ImageCorruption(
        "glass_blur", glass_blur, ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2))
    ),
    ImageCorruption("motion_blur", motion_blur, ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))),
    ImageCorruption("zoom_blur", zoom_blur, (1.06, 1.11, 1.15, 1.20, 1.25)),
)
