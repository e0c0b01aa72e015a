"""The image that the page is about: one of the test images, or a file that somebody gave."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from torch import Tensor

from geq.data.image import decode_image, middle_square
from geq.error import InputError
from geq.training.ingredient import DataDescription
from geq.training.prediction import in_channels, square_side

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
    def key(self) -> str:
        """The same for the same pixels."""
        return f"{self.dataset}/{self.index}"

    @property
    def title(self) -> str:
        return f"test image {self.index} of {self.dataset}"

    def rgb(self) -> UInt8[np.ndarray, "h w 3"]:
        pixels = self.pixels[0].permute(1, 2, 0).numpy()
        return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))

    def fitted(self, data: DataDescription) -> UInt8[Tensor, "1 c h w"]:
        """In the size and with the channels that a network was trained on."""
        if tuple(self.pixels.shape[1:]) == data.shape:
            return self.pixels
        return in_channels(middle_square(self.rgb(), square_side(data))[None], data)


@dataclass(frozen=True)
class FilePicture:
    """An image file that somebody gave; read again for each size, so that no large image stays in memory.

    Args:
        path: where the server keeps it.
        name: what its owner calls it.
    """

    path: Path
    name: str

    @property
    def key(self) -> str:
        return str(self.path)

    @property
    def title(self) -> str:
        return self.name

    @property
    def truth(self) -> str | None:
        """Nobody has said what it shows."""
        return None

    def check(self) -> None:
        """Refuse what is too large or no image, before anything is made of it."""
        if not self.path.is_file():
            raise InputError(f"{self.name} is not on the server any more: upload it again")
        size = self.path.stat().st_size
        if size > LARGEST_FILE:
            raise InputError(
                f"an image must not be larger than {LARGEST_FILE // 2**20} MB: {self.name} has "
                f"{size / 2**20:.1f} MB; make it smaller first"
            )

    def fitted(self, data: DataDescription) -> UInt8[Tensor, "1 c h w"]:
        self.check()
        return in_channels(_read(self.path, self.name, square_side(data))[None], data)


@lru_cache(maxsize=64)
def _read(path: Path, name: str, side: int) -> UInt8[np.ndarray, "side side 3"]:
    # From bytes, because errors about a path would name a folder of the server.
    return decode_image(io.BytesIO(path.read_bytes()), name, side)


Picture = SamplePicture | FilePicture
"""What a network can be asked about."""
