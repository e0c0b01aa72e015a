"""A picture of the confusion matrix: what each class is taken for."""

from __future__ import annotations

import logging
from typing import Any

import torch

from geq.atomic_io import explained_write_errors, write_durably
from geq.errors import GeqError
from geq.training.matplotlib_figure import new_figure, png
from geq.training.run_folder import RunFolder

log = logging.getLogger("geq.training")

NAMED, COUNTED = 40, 16
"""Most classes whose names, and whose numbers, have room in the picture."""


def keep_confusion(
    folder: RunFolder, name: str, confusion: list[list[int]], classes: tuple[str, ...], title: str
) -> str | None:
    """Write evaluation/NAME.png into a run; where that cannot be, warn and return None."""
    path = folder.evaluation / f"{name}.png"
    try:
        with explained_write_errors(path, "The picture was not kept."):
            content = draw_confusion(confusion, classes, title)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(path, content)
    except GeqError as problem:
        log.warning("%s", problem)
        return None
    return str(path)


def draw_confusion(confusion: list[list[int]], classes: tuple[str, ...], title: str) -> bytes:
    """Return a PNG with a row for each true class and a column for each class that is predicted.

    Colours are shares of the row, so that rare classes are seen as well; the numbers are counts.
    """
    counts = torch.tensor(confusion)[: len(classes)]
    shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
    names = [*classes, *(f"class {number}" for number in range(len(classes), counts.shape[1]))]
    side = 3.2 + 0.42 * min(len(names), NAMED) if len(names) <= NAMED else 12.0
    figure: Any = new_figure(side + 1.4, side, "the picture of the confusion matrix")
    axes = figure.subplots()
    shown = axes.imshow(100 * shares.numpy(), cmap="Blues", vmin=0, vmax=100)
    axes.set(xlabel="predicted class", ylabel="true class")
    figure.suptitle(title, fontsize=10)
    if len(names) <= NAMED:
        axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor", fontsize=8)
        axes.set_yticks(range(len(classes)), classes, fontsize=8)
    if len(names) <= COUNTED:
        for row in range(len(classes)):
            for column in range(len(names)):
                if counts[row, column]:
                    colour = "white" if shares[row, column] > 0.6 else "black"
                    words = f"{int(counts[row, column]):,}"
                    axes.text(column, row, words, ha="center", va="center", color=colour, fontsize=8)
    figure.colorbar(shown, ax=axes, label="% of the row", shrink=0.8)
    return png(figure)
