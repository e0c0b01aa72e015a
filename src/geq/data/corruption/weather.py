"""Corruptions by weather: snow, frost, fog, spatter."""

from __future__ import annotations

import math
from functools import lru_cache

import cv2
import numpy as np
from jaxtyping import Float
from scipy.ndimage import gaussian_filter

from geq.data.corruption.blur import enlarge, streak
from geq.data.corruption.corruption_registry import ImageCorruption, Picture

TEXTURES = 5
BRIGHTNESS = (0.42, 0.52, 0.62, 0.72, 0.80)
"""Mean of each texture, from clear ferns on dark glass to a window that is nearly white."""
SPREAD = 0.22
FERNS = 48
TINT = np.array([0.93, 1.0, 1.06])


def frost(image: Picture, cover: tuple[float, float], random: np.random.Generator) -> Picture:
    """keep · x + add · (a random piece of a random texture); ``cover`` is (keep, add).

    The published files blend five photographs, which cannot be shipped. Here five textures are drawn: stems
    that start anywhere and branch at 60 degrees, as ice does, on a cloudy layer of rime. Their brightness and
    spread are set so that the mean change of CIFAR-10 test images equals that of the published files at each
    severity.
    """
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


Layer = Float[np.ndarray, "height width"]

WATER = np.array([175, 238, 238]) / 255
MUD = np.array([63, 42, 20]) / 255


def snow(
    image: Picture, fall: tuple[float, float, float, float, int, float, float], random: np.random.Generator
) -> Picture:
    """Bright flakes drawn out by their fall, over an image that snow light has made pale.

    ``fall`` is the mean and deviation of the noise that flakes are cut from, their size, the threshold, the
    radius and deviation of the streak, and the share of the image that keeps its own colour.
    """
    mean, deviation, size, threshold, radius, length, colour = fall
    height, width = image.shape[:2]
    flakes = enlarge(random.normal(mean, deviation, size=(height, width)), size)
    flakes = np.clip(np.where(flakes < threshold, 0, flakes), 0, 1)
    flakes = streak(flakes, radius, length, angle=random.uniform(-135, -45))
    grey = image @ np.array([0.299, 0.587, 0.114])
    pale = np.maximum(image, 1.5 * grey[..., None] + 0.5)
    return np.asarray(colour * image + (1 - colour) * pale + (flakes + np.rot90(flakes, 2))[..., None])


def plasma(side: int, decay: float, random: np.random.Generator) -> Layer:
    """A cloud by midpoint displacement on a torus, values from 0 to 1; ``side`` is a power of two.

    Each level halves the grid and divides the amplitude of the displacement by ``decay``²: in the
    published files the amplitude enters as a factor and as the range of the noise.
    """
    cloud = np.zeros((side, side))
    step, amplitude = side, 100.0
    while step >= 2:
        half = step // 2
        corner = cloud[::step, ::step]
        pair = corner + np.roll(corner, -1, axis=0)
        centre = _displaced(pair + np.roll(pair, -1, axis=1), amplitude, random)
        cloud[half::step, half::step] = centre
        above = centre + np.roll(centre, 1, axis=0) + corner + np.roll(corner, -1, axis=1)
        cloud[::step, half::step] = _displaced(above, amplitude, random)
        beside = centre + np.roll(centre, 1, axis=1) + corner + np.roll(corner, -1, axis=0)
        cloud[half::step, ::step] = _displaced(beside, amplitude, random)
        step, amplitude = half, amplitude / decay
    cloud -= cloud.min()
    return np.asarray(cloud / cloud.max())


def _displaced(sum_of_four: Layer, amplitude: float, random: np.random.Generator) -> Layer:
    return sum_of_four / 4 + amplitude * random.uniform(-amplitude, amplitude, size=sum_of_four.shape)


def fog(image: Picture, density: tuple[float, float], random: np.random.Generator) -> Picture:
    """A cloud added to the image, which is then darkened so that its brightest value stays.

    ``density`` is the amount of the cloud and the decay of its detail.
    """
    amount, decay = density
    height, width = image.shape[:2]
    side = max(2, 2 ** math.ceil(math.log2(max(height, width))))
    brightest = float(image.max())
    cloud = plasma(side, decay, random)[:height, :width]
    return (image + amount * cloud[..., None]) * brightest / (brightest + amount)


def spatter(
    image: Picture, splash: tuple[float, float, float, float, float, bool], random: np.random.Generator
) -> Picture:
    """Drops of water that shine, or of mud that hide.

    ``splash`` is the mean and deviation of the noise that drops are cut from, the deviation of the filter
    that joins it, the threshold, the brightness of water or the softness of mud, and whether it is mud.
    """
    mean, deviation, join, threshold, strength, mud = splash
    liquid = gaussian_filter(random.normal(mean, deviation, size=image.shape[:2]), join, mode="nearest")
    liquid = np.where(liquid < threshold, 0, liquid)
    if mud:
        cover = gaussian_filter((liquid > threshold).astype(float), strength, mode="nearest")
        cover = np.where(cover < 0.8, 0, cover)[..., None]
        return np.asarray(image * (1 - cover) + MUD * cover)
    return np.asarray(image + strength * _shine(liquid)[..., None] * WATER)


def _shine(liquid: Layer) -> Layer:
    """Return the highlights of drops: bright at one side of their rim, values from 0 to 1."""
    drops = np.clip(liquid * 255, 0, 255).astype(np.uint8)
    distance = cv2.distanceTransform(255 - cv2.Canny(drops, 50, 150), cv2.DIST_L2, 5)
    height = cv2.equalizeHist(cv2.blur(np.minimum(distance, 20), (3, 3)).astype(np.uint8))
    slope = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], dtype=np.float32)
    light = cv2.blur(cv2.filter2D(height, cv2.CV_8U, slope), (3, 3)).astype(float) * drops
    return np.asarray(light / max(light.max(), 1e-9))


CORRUPTIONS = (
    ImageCorruption(
        "snow",
        snow,
        (
            (0.1, 0.2, 1.0, 0.6, 8, 3.0, 0.95),
            (0.1, 0.2, 1.0, 0.5, 10, 4.0, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4.0, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6.0, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12.0, 0.8),
        ),
    ),
    ImageCorruption("frost", frost, ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))),
    ImageCorruption("fog", fog, ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))),
    ImageCorruption(
        "spatter",
        spatter,
        (
            (0.62, 0.1, 0.7, 0.7, 0.5, False),
            (0.65, 0.1, 0.8, 0.7, 0.5, False),
            (0.65, 0.3, 1.0, 0.69, 0.5, False),
            (0.65, 0.1, 0.7, 0.69, 0.6, True),
            (0.65, 0.1, 0.5, 0.68, 0.6, True),
        ),
    ),
)
