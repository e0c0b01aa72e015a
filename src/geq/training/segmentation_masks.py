"""Pictures of labelled pixels: masks in their published colours over the image, and the picture of a run.

A mask is written as a PNG with a palette: it looks coloured, and its values are the labels themselves.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from geq.atomic_io import write_durably
from geq.data.class_colours import VOID, Colour, colours_of
from geq.data.dataset import Dataset
from geq.data.segmentation import SegmentationDataset
from geq.errors import DataError
from geq.model.network import Network
from geq.training.evaluation import evaluating
from geq.training.matplotlib_figure import new_figure, png
from geq.training.run_folder import RunFolder
from geq.training.run_picture import draw_curves
from geq.training.setup import evaluation_loader
from geq.training.sliding_window import Inference

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
    """Replace only files written by geq: a mask next to an image may be a user's labels."""
    if path.exists() and not _is_ours(path):
        raise DataError(f"{path} exists already and was not written by geq: move it, or choose --output")
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


SHOWN = 4
"""Test images in the picture."""


def draw_segmentation_run(folder: RunFolder, model: Network, test: Dataset) -> None:
    """Write picture.png: curves above; image, truth and prediction below, in the published colours."""
    assert isinstance(test, SegmentationDataset)
    figure = new_figure(12.0, 10.0)
    parts: Any = figure.subfigures(2, 1, height_ratios=(4.0, 6.0))
    draw_curves(parts[0], folder)
    number = min(SHOWN, len(test))
    spread = test.subset([round(index * (len(test) - 1) / max(1, number - 1)) for index in range(number)])
    _draw_scenes(parts[1], model, spread, folder)
    write_durably(folder.picture, png(figure))


def _draw_scenes(figure: Any, model: Network, scenes: SegmentationDataset, folder: RunFolder) -> None:
    from matplotlib.patches import Patch

    colours = colours_of(scenes.name, scenes.classes)
    table = palette_table(colours)
    axes = figure.subplots(3, len(scenes), squeeze=False)
    like = next(model.parameters())
    inference = Inference.of(folder.options())
    loader = evaluation_loader(scenes, statistics=folder.data().statistics, batch_size=1)
    for column, (images, labels) in enumerate(loader):
        with evaluating(model, scenes):
            found = inference.logits(model, images.to(like))[0].argmax(0).cpu()
        axes[0, column].imshow(scenes.read(column)[0].permute(1, 2, 0).numpy())
        axes[1, column].imshow(table[labels[0].to(torch.uint8).numpy()])
        axes[2, column].imshow(table[found.to(torch.uint8).numpy()])
    for row, title in enumerate(("image", "truth", "prediction")):
        axes[row, 0].set_ylabel(title)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    handles = [
        Patch(color=(red / 255, green / 255, blue / 255), label=name)
        for name, (red, green, blue) in zip(scenes.classes, colours, strict=True)
    ]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9)
