"""One picture of a restoration run: how it trained, and test images damaged, restored and clean."""

from __future__ import annotations

import torch

from geq.atomic_io import write_durably
from geq.data.dataset import Dataset
from geq.data.restoration import RestorationDataset
from geq.model.network import Network
from geq.training.evaluation import evaluating
from geq.training.matplotlib_figure import new_figure, png
from geq.training.run_folder import RunFolder
from geq.training.run_picture import draw_curves
from geq.training.setup import evaluation_loader

SHOWN = 8
"""Test images in the picture."""


def draw_restoration_run(folder: RunFolder, model: Network, test: Dataset) -> None:
    """Write picture.png: curves above; damaged, restored and clean images below."""
    assert isinstance(test, RestorationDataset)
    figure = new_figure(12.0, 9.0)
    parts = figure.subfigures(2, 1, height_ratios=(4.0, 5.0))
    draw_curves(parts[0], folder)
    number = min(SHOWN, len(test))
    first = test.subset(range(number))
    loader = evaluation_loader(first, statistics=folder.data().statistics, batch_size=number)
    images, labels = next(iter(loader))
    with evaluating(model, first):
        restored = model(images.to(next(model.parameters()))).cpu()
    rows = {"damaged": images, "restored": restored, "clean": labels / 255}
    axes = parts[1].subplots(len(rows), number, squeeze=False)
    for row, (title, pictures) in enumerate(rows.items()):
        axes[row, 0].set_ylabel(title)
        for axis, picture in zip(axes[row], pictures.to(torch.float32).clamp(0, 1), strict=True):
            shown = picture.permute(1, 2, 0).numpy()
            axis.imshow(shown.squeeze(-1) if shown.shape[-1] == 1 else shown, cmap="gray", vmin=0, vmax=1)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    write_durably(folder.picture, png(figure))
