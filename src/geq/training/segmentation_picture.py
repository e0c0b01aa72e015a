"""One picture of a segmentation run: how it trained, and test images with their true and predicted masks."""

from __future__ import annotations

from typing import Any

import torch

from geq.atomic_io import write_durably
from geq.data.class_colours import colours_of
from geq.data.dataset import Dataset
from geq.data.segmentation import SegmentationDataset
from geq.model.network import Network
from geq.training.evaluation import evaluating
from geq.training.matplotlib_figure import new_figure, png
from geq.training.run_folder import RunFolder
from geq.training.run_picture import draw_curves
from geq.training.segmentation_masks import palette_table
from geq.training.setup import evaluation_loader
from geq.training.sliding_window import Inference

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
