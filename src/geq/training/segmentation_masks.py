"""Pictures of labelled pixels: masks in their published colours, laid over the image, with a legend.

A mask is written as a PNG with a palette: it looks coloured, and its values are the labels themselves.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from geq.atomic_io import write_durably
from geq.data.class_colours import VOID, Colour
from geq.errors import DataError

Mask = UInt8[np.ndarray, "h w"]
Picture = UInt8[np.ndarray, "h w 3"]

STRENGTH = 0.55
"""Share of the mask's colour in an overlay."""
SIGNATURE = ("Software", "geq predict")
"""Text inside each PNG, by which files that may be replaced are known."""
ROW, SAMPLE, MARGIN = 15, 10, 4
"""Pixels of a line of the legend, of its colour sample, and around them."""


def palette_table(colours: tuple[Colour, ...]) -> UInt8[np.ndarray, "256 3"]:
    """Label -> colour; labels without a class are void."""
    table = np.full((256, 3), VOID, dtype=np.uint8)
    table[: len(colours)] = colours
    return table


def overlay(image: Picture, mask: Mask, colours: tuple[Colour, ...]) -> Picture:
    """The image with the colours of the mask; void pixels stay as they are."""
    tinted = (1 - STRENGTH) * image + STRENGTH * palette_table(colours)[mask]
    labelled = (mask < len(colours))[..., None]
    return np.where(labelled, tinted.round(), image).astype(np.uint8)


def with_legend(
    picture: Picture, names: tuple[str, ...], colours: tuple[Colour, ...]
) -> UInt8[np.ndarray, "tall wide 3"]:
    """``picture`` with a column to its right that names the colours; taller where the column is."""
    font = ImageFont.load_default(ROW - MARGIN)
    widest = max(int(font.getlength(name)) for name in names)
    height, width = picture.shape[:2]
    size = (width + 3 * MARGIN + SAMPLE + widest, max(height, ROW * len(names) + 2 * MARGIN))
    sheet = Image.new("RGB", size, "white")
    sheet.paste(Image.fromarray(picture))
    draw = ImageDraw.Draw(sheet)
    for row, (name, colour) in enumerate(zip(names, colours, strict=True)):
        left, top = width + MARGIN, MARGIN + row * ROW
        draw.rectangle((left, top, left + SAMPLE, top + SAMPLE), fill=colour)
        draw.text((left + SAMPLE + MARGIN, top - 1), name, fill="black", font=font)
    return np.asarray(sheet)


def write_mask(path: Path, mask: Mask, colours: tuple[Colour, ...]) -> None:
    picture = Image.fromarray(mask)
    picture.putpalette(palette_table(colours).tobytes())
    _write(path, picture)


def write_picture(path: Path, picture: Picture) -> None:
    _write(path, Image.fromarray(picture))


def _write(path: Path, picture: Image.Image) -> None:
    """Only a file of our own making is replaced: a mask beside an image may be someone's labels."""
    if path.exists() and not _is_ours(path):
        raise DataError(f"{path} is there already and was not written by geq: move it, or choose --output")
    text = PngInfo()
    text.add_text(*SIGNATURE)
    buffer = io.BytesIO()
    picture.save(buffer, format="png", pnginfo=text)
    write_durably(path, buffer.getvalue())


def _is_ours(path: Path) -> bool:
    try:
        with Image.open(path) as picture:
            return picture.info.get(SIGNATURE[0]) == SIGNATURE[1]
    except OSError:
        return False
