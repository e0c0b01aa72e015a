"""Corruptions by processing: brightness, contrast, saturation, JPEG, pixelation, elastic deformation."""

from __future__ import annotations

from io import BytesIO

import cv2
import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter
from skimage.color import hsv2rgb, rgb2hsv

from geq.data.corruption.corruption_registry import ImageCorruption, Picture


def brightness(image: Picture, amount: float, random: np.random.Generator) -> Picture:
    """``amount`` added to the value of hue, saturation, value."""
    colour = rgb2hsv(image)
    colour[..., 2] = np.clip(colour[..., 2] + amount, 0, 1)
    return np.asarray(hsv2rgb(colour))


def saturate(image: Picture, change: tuple[float, float], random: np.random.Generator) -> Picture:
    """Saturation s becomes factor · s + offset; ``change`` is (factor, offset)."""
    factor, offset = change
    colour = rgb2hsv(image)
    colour[..., 1] = np.clip(factor * colour[..., 1] + offset, 0, 1)
    return np.asarray(hsv2rgb(colour))


def contrast(image: Picture, factor: float, random: np.random.Generator) -> Picture:
    """Each colour is drawn towards its mean over the image."""
    mean = image.mean(axis=(0, 1), keepdims=True)
    return np.asarray(mean + factor * (image - mean))


def jpeg_compression(image: Picture, quality: int, random: np.random.Generator) -> Picture:
    buffer = BytesIO()
    Image.fromarray(np.round(image * 255).astype(np.uint8)).save(buffer, "JPEG", quality=quality)
    return np.asarray(Image.open(buffer), dtype=float) / 255


def pixelate(image: Picture, factor: float, random: np.random.Generator) -> Picture:
    """Reduced to ``factor`` of its side with a box filter, and brought back in the same way."""
    height, width = image.shape[:2]
    picture = Image.fromarray(np.round(image * 255).astype(np.uint8))
    small = picture.resize((max(1, int(width * factor)), max(1, int(height * factor))), Image.Resampling.BOX)
    return np.asarray(small.resize((width, height), Image.Resampling.BOX), dtype=float) / 255


def elastic_transform(
    image: Picture, rubber: tuple[float, float, float], random: np.random.Generator
) -> Picture:
    """A random affine map, then a smooth random displacement of every pixel.

    ``rubber`` is the amplitude and smoothness of the displacement and the reach of the affine map, all as
    shares of the image's shorter side.
    """
    height, width = image.shape[:2]
    side = min(height, width)
    amplitude, smoothness, reach = (side * share for share in rubber)
    centre, arm = np.array([height // 2, width // 2], dtype=np.float32), side // 3
    corners = np.array([centre + arm, [centre[0] + arm, centre[1] - arm], centre - arm], dtype=np.float32)
    moved = corners + random.uniform(-reach, reach, size=(3, 2)).astype(np.float32)
    affine = cv2.getAffineTransform(corners, moved)
    bent = cv2.warpAffine(image, affine, (width, height), borderMode=cv2.BORDER_REFLECT_101)
    noise = random.uniform(-1, 1, size=(2, height, width))
    right, down = (amplitude * gaussian_filter(n, smoothness, mode="reflect", truncate=3) for n in noise)
    rows, columns = np.mgrid[:height, :width]
    columns, rows = (columns + right).astype(np.float32), (rows + down).astype(np.float32)
    return np.asarray(cv2.remap(bent, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT))


CORRUPTIONS = (
    ImageCorruption("brightness", brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    ImageCorruption("contrast", contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
    ImageCorruption("saturate", saturate, ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2))),
    ImageCorruption("jpeg_compression", jpeg_compression, (80, 65, 58, 50, 40)),
    ImageCorruption("pixelate", pixelate, (0.95, 0.9, 0.85, 0.75, 0.65)),
    ImageCorruption(
        "elastic_transform",
        elastic_transform,
        ((0.0, 0.0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
    ),
)
