"""Frost on a window: ice ferns grown by rule, because photographs of frost cannot be shipped.

The published files blend five photographs into the images. Here five textures are drawn instead: stems that
start anywhere and branch at 60 degrees, as ice does, on a cloudy layer of rime. Brightness and spread of
the textures are set so that the mean change of CIFAR-10 test images equals that of the published files at
each severity.
"""

from __future__ import annotations

import math
from functools import lru_cache

import cv2
import numpy as np
from jaxtyping import Float
from scipy.ndimage import gaussian_filter

from geq.data.corruption.kind import Picture

TEXTURES = 5
BRIGHTNESS = (0.42, 0.52, 0.62, 0.72, 0.80)
"""Mean of each texture, from clear ferns on dark glass to a window that is nearly white."""
SPREAD = 0.22
FERNS = 48
TINT = np.array([0.93, 1.0, 1.06])


def frost(image: Picture, cover: tuple[float, float], random: np.random.Generator) -> Picture:
    """keep · x + add · (a random piece of a random texture); ``cover`` is (keep, add)."""
    keep, add = cover
    height, width = image.shape[:2]
    ice = texture(int(random.integers(TEXTURES)), side=max(128, 4 * max(height, width)))
    top, left = random.integers(ice.shape[0] - height), random.integers(ice.shape[1] - width)
    return keep * image + add * ice[top : top + height, left : left + width]


@lru_cache(maxsize=2 * TEXTURES)
def texture(number: int, side: int) -> Float[np.ndarray, "side side 3"]:
    """Texture ``number``, the same on every machine and for every seed; about ``side``/4 pixels to a fern."""
    random = np.random.default_rng([2019, number])
    rime = sum(
        (
            gaussian_filter(random.normal(size=(side, side)), scale, mode="wrap") * scale
            for scale in (2, 5, 12)
        ),
        start=np.zeros((side, side)),
    )
    layer = _standard(cv2.GaussianBlur(_ferns(side, random), (3, 3), 0.6)) + 0.8 * _standard(rime)
    grey = np.clip(BRIGHTNESS[number] + SPREAD * _standard(layer), 0, 1)
    return np.asarray(np.clip(grey[..., None] * TINT, 0, 1))


def _standard(layer: Float[np.ndarray, "side side"]) -> Float[np.ndarray, "side side"]:
    return np.asarray((layer - layer.mean()) / layer.std(), dtype=float)


def _ferns(side: int, random: np.random.Generator) -> Float[np.ndarray, "side side"]:
    """Stems that bend a little and fade along their way, with side branches that have side branches."""
    canvas = np.zeros((side, side), dtype=np.float32)
    growing = [
        (*random.uniform(0, side, size=2).tolist(), random.uniform(0, 2 * math.pi), side / 4, side / 128, 3)
        for _ in range(FERNS)
    ]
    while growing:
        x, y, angle, length, thickness, generation = growing.pop()
        pieces = 2 * generation
        for piece in range(pieces):
            angle += random.normal(scale=0.06)
            end_x = x + length / pieces * math.cos(angle)
            end_y = y + length / pieces * math.sin(angle)
            light = (0.35 + 0.65 * random.random()) * (1 - 0.5 * piece / pieces)
            # Coordinates are whole numbers of sixteenths of a pixel (shift=4).
            start, end = [int(16 * x), int(16 * y)], [int(16 * end_x), int(16 * end_y)]
            cv2.line(canvas, start, end, color=light, thickness=max(1, round(thickness)), shift=4)
            x, y = end_x, end_y
            for turn in (-math.pi / 3, math.pi / 3) if generation > 1 else ():
                reach = length * (0.45 - 0.35 * piece / pieces) * random.uniform(0.6, 1.0)
                growing.append((x, y, angle + turn, reach, thickness / 2, generation - 1))
    return canvas
