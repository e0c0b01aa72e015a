"""Noise of sensor and transmission, and faults: outliers in an image that is otherwise kept.

The faults are not among the 19 of CIFAR-10-C; a robust loss is for them. Their strengths are shares of the
image, so they fit every size.
"""

from __future__ import annotations

import numpy as np
from skimage.util import random_noise

from geq.data.corruption.corruption_registry import ImageCorruption, Picture


def gaussian_noise(image: Picture, deviation: float, random: np.random.Generator) -> Picture:
    """x + ε, ε ~ N(0, deviation²): what little light does to a sensor."""
    return image + random.normal(scale=deviation, size=image.shape)


def shot_noise(image: Picture, photons: float, random: np.random.Generator) -> Picture:
    """Poisson(photons · x) / photons: light arrives in quanta, white being ``photons`` of them."""
    return random.poisson(image * photons) / photons


def impulse_noise(image: Picture, amount: float, random: np.random.Generator) -> Picture:
    """A share ``amount`` of the values becomes 0 or 1: the colour form of salt and pepper."""
    return np.asarray(random_noise(image, mode="s&p", amount=amount, rng=random))


def speckle_noise(image: Picture, deviation: float, random: np.random.Generator) -> Picture:
    """x + x·ε: noise that grows with brightness."""
    return image * (1 + random.normal(scale=deviation, size=image.shape))


TILE = 0.125
"""Side of a noise patch as a share of the image's: 4 pixels of 32."""


def occlusion(image: Picture, share: float, random: np.random.Generator) -> Picture:
    """A square of one random grey over ``share`` of the area: something stands in front of the camera."""
    height, width = image.shape[:2]
    tall, wide = (max(1, round(side * share**0.5)) for side in (height, width))
    top, left = random.integers(height - tall + 1), random.integers(width - wide + 1)
    changed = image.copy()
    changed[top : top + tall, left : left + wide] = random.uniform()
    return changed


def noise_patches(image: Picture, share: float, random: np.random.Generator) -> Picture:
    """Tiles of the image become uniform noise, each with probability ``share``: blocks lost on the way."""
    height, width = image.shape[:2]
    tall, wide = (max(1, round(side * TILE)) for side in (height, width))
    lost = random.uniform(size=(-(-height // tall), -(-width // wide))) < share
    mask = np.kron(lost, np.ones((tall, wide)))[:height, :width, None] > 0
    return np.where(mask, random.uniform(size=image.shape), image)


def dead_lines(image: Picture, share: float, random: np.random.Generator) -> Picture:
    """Columns of the sensor, each with probability ``share``, deliver nothing."""
    return np.where(random.uniform(size=(1, image.shape[1], 1)) < share, 0.0, image)


def hot_pixels(image: Picture, share: float, random: np.random.Generator) -> Picture:
    """Pixels, each with probability ``share``, are saturated in all colours."""
    return np.where(random.uniform(size=(*image.shape[:2], 1)) < share, 1.0, image)


CORRUPTIONS = (
    ImageCorruption("gaussian_noise", gaussian_noise, (0.04, 0.06, 0.08, 0.09, 0.10)),
    ImageCorruption("shot_noise", shot_noise, (500.0, 250.0, 100.0, 75.0, 50.0)),
    ImageCorruption("impulse_noise", impulse_noise, (0.01, 0.02, 0.03, 0.05, 0.07)),
    ImageCorruption("speckle_noise", speckle_noise, (0.06, 0.1, 0.12, 0.16, 0.2)),
    ImageCorruption("occlusion", occlusion, (0.05, 0.1, 0.15, 0.2, 0.3)),
    ImageCorruption("noise_patches", noise_patches, (0.05, 0.1, 0.15, 0.2, 0.3)),
    ImageCorruption("dead_lines", dead_lines, (0.03, 0.06, 0.1, 0.15, 0.2)),
    ImageCorruption("hot_pixels", hot_pixels, (0.01, 0.02, 0.04, 0.07, 0.1)),
)
