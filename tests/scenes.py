"""Tiny street scenes in CamVid's layout, which a network can learn in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from geq.data.segmentation import CAMVID_CLASSES

SKY, ROAD, CAR, VOID = (
    CAMVID_CLASSES.index("sky"),
    CAMVID_CLASSES.index("road"),
    CAMVID_CLASSES.index("car"),
    len(CAMVID_CLASSES),
)
PAINT = {SKY: (90, 140, 220), ROAD: (110, 100, 110), CAR: (200, 30, 40), VOID: (0, 0, 0)}
HEIGHT, WIDTH = 21, 30


def scene(seed: int, height: int = HEIGHT, width: int = WIDTH) -> tuple[np.ndarray, np.ndarray]:
    """Sky above a road with a car, a frame of void, and noise; image and mask."""
    random = np.random.default_rng(seed)
    mask = np.full((height, width), SKY, dtype=np.uint8)
    horizon = int(random.integers(height // 3, 2 * height // 3))
    mask[horizon:] = ROAD
    left = int(random.integers(2, width - 10))
    mask[horizon - 2 : horizon + 4, left : left + 8] = CAR
    mask[:, 0] = VOID
    image = np.stack([np.vectorize(lambda v, k=k: PAINT[v][k])(mask) for k in range(3)], -1)
    noisy = image + random.normal(0, 12, image.shape)
    return noisy.clip(0, 255).astype(np.uint8), mask


def write_camvid(root: Path, train: int = 12, val: int = 4, test: int = 5) -> Path:
    """The folder ``camvid`` below ``root``; returns ``root``."""
    for number, (split, count) in enumerate({"train": train, "val": val, "test": test}.items()):
        for folder in (split, f"{split}annot"):
            (root / "camvid" / folder).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            image, mask = scene(1000 * number + index)
            Image.fromarray(image).save(root / "camvid" / split / f"{index:03d}.png")
            Image.fromarray(mask).save(root / "camvid" / f"{split}annot" / f"{index:03d}.png")
    return root
