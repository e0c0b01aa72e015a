"""Reads one image or mask from a file, with what can be wrong with it said in words.

Documented conversions: the orientation that a camera notes in the EXIF data is applied; grey, palette, CMYK
and 16-bit images become 8-bit RGB, and transparency is laid on black. A picture of more than
:data:`MAX_PIXELS`, or a large one in far too few bytes, is refused before it is unpacked.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt8

from geq.errors import DataError, GeqError, InputError, MissingExtraError, one_line

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 64_000_000
"""Larger than any photograph of the datasets here (Cityscapes: 2 million, ImageNet's largest: 38 million)."""
FREE_PIXELS, PIXELS_PER_BYTE = 16_000_000, 1000
"""Beyond so many pixels a file must have a byte for each thousand. Photographs have twenty times that; a WebP
of one colour has 38 bytes, and unpacking it takes 16 for each pixel."""
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "PPM", "TIFF")
"""Pillow knows dozens of formats, some of which start other programs (EPS: Ghostscript); these do not."""
SUFFIXES = (".jpeg", ".jpg", ".png", ".webp", ".bmp", ".ppm", ".tif", ".tiff")


ORIENTATION = 0x0112
"""EXIF tag that states how a camera was held."""


def image_files(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the image files below ``folder`` that match a glob ``pattern``, sorted, without hidden ones.

    Hidden files are not images of the dataset, with any suffix: macOS writes "._cat.jpg" beside
    "cat.jpg" on foreign disks, and tools keep thumbnails in folders such as ".cache".
    """
    return sorted(
        path
        for path in folder.glob(pattern)
        if path.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def read_image(path: Path, size: int | None = None) -> UInt8[np.ndarray, "h w 3"]:
    """The image as RGB bytes; with ``size``, its middle square resized to ``size`` × ``size``.

    The middle square is as large as the shorter side allows, so nothing is distorted.
    """
    return decode_image(path, str(path), size)


def decode_image(source: Path | io.BytesIO, what: str, size: int | None = None) -> UInt8[np.ndarray, "h w 3"]:
    """As :func:`read_image`, from a file or from its bytes; errors call it ``what``."""
    with _explained(what):
        picture = _rgb(_open(source, what), what)
        return np.asarray(picture if size is None else _middle_square(picture, size))


def rgb_pixels(picture: Any) -> UInt8[np.ndarray, "h w 3"]:
    """Return a Pillow image, upright and as RGB bytes."""
    what = "the image"
    with _explained(what):
        from PIL import Image

        if not isinstance(picture, Image.Image):
            raise InputError(
                f"{what} must be a file, a Pillow image, an array or a tensor: got {type(picture).__name__}"
            )
        return np.asarray(_rgb(_upright(picture), what))


def middle_square(pixels: UInt8[np.ndarray, "h w 3"], size: int) -> UInt8[np.ndarray, "size size 3"]:
    """As :func:`read_image` cuts and resizes, for an image in memory."""
    from PIL import Image

    return np.asarray(_middle_square(Image.fromarray(pixels), size))


def read_mask(path: Path) -> UInt8[np.ndarray, "h w"]:
    """Label of each pixel: a single-channel or palette image of 8 bits, never converted."""
    with _explained(str(path)):
        picture = _open(path, str(path))
    if picture.mode not in ("L", "P"):
        raise DataError(f"{path} must be a label image with one channel of 8 bits: got mode {picture.mode}")
    return np.asarray(picture)


def _open(source: Path | io.BytesIO, what: str) -> Image.Image:
    from PIL import Image

    if isinstance(source, Path) and source.is_dir():
        raise DataError(f"an image file is needed: {what} is a folder")
    if isinstance(source, Path) and not source.is_file():
        raise DataError(f"there is no file {what}")
    file = source.open("rb") if isinstance(source, Path) else source
    with file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of size and of metadata; size is checked here
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        picture = Image.open(file, formats=FORMATS)
        most = min(MAX_PIXELS, max(FREE_PIXELS, PIXELS_PER_BYTE * size))
        if picture.width * picture.height > most:
            raise DataError(
                f"{what} announces {picture.width} × {picture.height} pixels in {size} bytes, more "
                f"than {most}: it was not unpacked (a decompression bomb, or not a photograph); remove it"
            )
        picture.load()
        return _upright(picture)


def _upright(picture: Image.Image) -> Image.Image:
    """Apply the EXIF orientation, as every viewer does; the file holds the pixels as the sensor saw them."""
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    try:
        turn = turns.get(picture.getexif().get(ORIENTATION, 1))
    except Exception:  # of damaged metadata Pillow raises anything; the pixels can be read nonetheless
        turn = None
    return picture if turn is None else picture.transpose(turn)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn any error of Pillow while it reads or converts ``what`` into a ``DataError``."""
    try:
        from PIL import UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError.naming("pillow", "vision", "reading image files") from error
    try:
        yield
    except GeqError:
        raise
    except UnidentifiedImageError as error:  # its own words describe the object that was read
        raise DataError(
            f"{what} is not an image that can be read: it has no known format; use PNG or JPEG"
        ) from error
    except Exception as error:  # decoders and conversions raise many kinds of errors on damaged files
        raise DataError(
            f"{what} is not an image that can be read: {one_line(error)}; remove or replace it"
        ) from error


def _rgb(picture: Image.Image, what: str) -> Image.Image:
    from PIL import Image

    if picture.mode == "RGB":
        return picture
    if picture.mode in ("I;16", "I;16B", "I;16L", "I"):
        values = np.asarray(picture)  # 16 bits without sign, or 32 with one
        if values.min(initial=0) < 0 or values.max(initial=0) > 65535:
            raise DataError(f"{what} has grey values outside 0..65535: convert it to 8 or 16 bits")
        picture = Image.fromarray((values >> 8).astype(np.uint8))
    if picture.mode == "F":
        raise DataError(
            f"{what} holds floating-point values without a known white: convert it to 8 or 16 bits"
        )
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        colour = picture.convert("RGBA")
        black = Image.new("RGBA", colour.size, (0, 0, 0, 255))
        return Image.alpha_composite(black, colour).convert("RGB")
    return picture.convert("RGB")


def _middle_square(picture: Image.Image, size: int) -> Image.Image:
    from PIL import Image

    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    return picture.resize((size, size), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))
