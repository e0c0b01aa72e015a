"""Noise of sensor and transmission: Gaussian, shot, impulse, speckle."""

from __future__ import annotations

import numpy as np
from skimage.util import random_noise

from geq.data.corruption.kind import Corruption, Picture


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


CORRUPTIONS = (
    Corruption("gaussian_noise", gaussian_noise, (0.04, 0.06, 0.08, 0.09, 0.10)),
    Corruption("shot_noise", shot_noise, (500.0, 250.0, 100.0, 75.0, 50.0)),
    Corruption("impulse_noise", impulse_noise, (0.01, 0.02, 0.03, 0.05, 0.07)),
    Corruption("speckle_noise", speckle_noise, (0.06, 0.1, 0.12, 0.16, 0.2)),
)
