"""Image of the page, a test image or an uploaded file, and its distortions."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from geq.data.corruption import SEVERITIES, corrupt, corrupt_by
from geq.data.image_reader import decode_image
from geq.errors import InputError, OptionError
from geq.training.prediction import fitted, in_channels, square_side
from geq.training.setup import DataDescription
from geq_demo.recent_cache import RecentCache

LARGEST_FILE = 10 * 2**20
"""Bytes of an uploaded file."""


@dataclass(frozen=True)
class SamplePicture:
    """An image of a test set.

    Args:
        dataset: its name.
        index: number in the test set.
        pixels: of the image.
        truth: its class.
    """

    dataset: str
    index: int
    pixels: UInt8[Tensor, "1 c h w"]
    truth: str | None

    @property
    def title(self) -> str:
        return f"test image {self.index} of {self.dataset}"

    def is_same(self, other: SamplePicture) -> bool:
        """Return whether both are one image of one dataset; datasets of the same name may differ."""
        same = (self.dataset, self.index, self.truth) == (other.dataset, other.index, other.truth)
        return same and torch.equal(self.pixels, other.pixels)

    def rgb(self) -> UInt8[np.ndarray, "h w 3"]:
        pixels = self.pixels[0].permute(1, 2, 0).numpy()
        return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))

    def fitted(self, data: DataDescription) -> UInt8[Tensor, "1 c h w"]:
        """In the size and with the channels that a network was trained on."""
        return fitted(self.pixels[0], data)


@dataclass(frozen=True)
class FilePicture:
    """An uploaded image file; read again for each size, so that no large image stays in memory.

    Args:
        path: where the server keeps it.
        name: what its owner calls it.
    """

    path: Path
    name: str

    @property
    def title(self) -> str:
        return self.name

    @property
    def truth(self) -> str | None:
        """Nobody has said what it shows."""
        return None

    def read(self) -> bytes:
        """Return the content of the file; refuse one that is gone or too large."""
        try:
            with self.path.open("rb") as file:
                content = file.read(LARGEST_FILE + 1)
        except OSError as problem:
            raise InputError(f"{self.name} is not on the server any more: upload it again") from problem
        if len(content) > LARGEST_FILE:
            raise InputError(
                f"an image must not be larger than {LARGEST_FILE // 2**20} MB: {self.name} has "
                f"{self.path.stat().st_size / 2**20:.1f} MB; make it smaller first"
            )
        return content

    def fitted(self, data: DataDescription) -> UInt8[Tensor, "1 c h w"]:
        content, side = self.read(), square_side(data)
        # By content, because a path may hold another picture later; from bytes, because errors about a path
        # would name a folder of the server.
        pixels = SQUARES.get(
            (hashlib.sha256(content).digest(), side),
            lambda: decode_image(io.BytesIO(content), self.name, side),
        )
        return in_channels(pixels[None], data)


SQUARES: RecentCache[UInt8[np.ndarray, "side side 3"]] = RecentCache(size=64)
"""Files of lately, cut and resized: unpacking a large one takes a second."""
Picture = SamplePicture | FilePicture
"""What a network can be asked about."""


NOISE, BLUR = 0.4, 2.0
"""Standard deviations at full noise (white is 1) and at full blur (in pixels)."""
FADED = 0.95
"""Share of the contrast that is gone at the end of its slider; without any the image would be lost."""


@dataclass(frozen=True)
class Distortion:
    """Less contrast first, then blur, then one of the 19 corruptions, then noise: as from scene to sensor.

    Args:
        noise, blur, fade: from 0 (none) to 100 (all).
        corruption: name of one of the 19, or None.
        severity: of the corruption, 1 to 5; 0 is none.
    """

    noise: float | int = 0
    blur: float | int = 0
    fade: float | int = 0
    corruption: str | None = None
    severity: int = 0

    def __post_init__(self) -> None:
        for name in ("noise", "blur", "fade"):
            if not 0 <= getattr(self, name) <= 100:
                raise OptionError(f"{name} must lie in 0..100: got {getattr(self, name)}")
        if self.severity not in (0, *SEVERITIES):
            raise OptionError(f"severity must lie in 0..{SEVERITIES[-1]}: got {self.severity}")

    def apply(self, image: UInt8[Tensor, "1 c h w"]) -> UInt8[Tensor, "1 c h w"]:
        """The same image every time: the noise has a fixed seed."""
        pixels = np.ascontiguousarray(image.permute(0, 2, 3, 1).numpy())
        if self.fade:
            pixels = corrupt_by(pixels, "contrast", 1 - FADED * self.fade / 100, seed=0)
        if self.blur:
            pixels = corrupt_by(pixels, "gaussian_blur", BLUR * self.blur / 100, seed=0)
        if self.corruption is not None and self.severity:
            pixels = corrupt(pixels, self.corruption, self.severity, seed=0)
        if self.noise:
            pixels = corrupt_by(pixels, "gaussian_noise", NOISE * self.noise / 100, seed=0)
        return torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()


CLEAR = Distortion()
