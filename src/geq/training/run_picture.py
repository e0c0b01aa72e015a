"""Pictures of a run: its curves, the attention of its equilibria, the confusion of its classes."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from geq.atomic_io import explained_write_errors, write_durably
from geq.data.dataset import Dataset
from geq.data.transform.base import Normalize
from geq.equilibrium import ignore_failures
from geq.errors import GeqError
from geq.model.network import Network
from geq.training.equilibrium_probe import probe
from geq.training.headline_metric import HEADLINES, headline_of, unit_of
from geq.training.matplotlib_figure import new_figure, png
from geq.training.run_folder import RunFolder

SHOWN = 8
"""Test images in the picture."""


def draw_run(folder: RunFolder, model: Network, test: Dataset) -> None:
    """Write picture.png: curves above, attention over test images below (Gaussian kernels only)."""
    images, labels = test.batch(spread_over_classes(test, SHOWN))
    normalised = Normalize.by(folder.data().statistics)(images, torch.Generator())
    maps = attention_maps(model, normalised)
    with torch.no_grad(), ignore_failures(model):
        predicted = model.eval()(normalised.to(next(model.parameters()))).argmax(1)
    rows = len(maps)
    figure = new_figure(12.0, 4.2 + (1.6 * (rows + 1) if rows else 0))
    parts: Any = figure.subfigures(2, 1, height_ratios=(4.0, 1.6 * (rows + 1))) if rows else [figure]
    draw_curves(parts[0], folder)
    if rows:
        titles = [
            test.classes[int(p)] + ("" if p == label else f" (is {test.classes[int(label)]})")
            for p, label in zip(predicted, labels, strict=True)
        ]
        _draw_attention(parts[1], images, maps, titles)
    write_durably(folder.picture, png(figure))


def spread_over_classes(dataset: Dataset, number: int) -> Tensor:
    """Indices of ``number`` images, of different classes as far as possible, the same every time."""
    _, labels = dataset.batch(torch.arange(min(len(dataset), 500)))
    seen: dict[int, int] = {}
    rank = []
    for index, label in enumerate(labels.tolist()):
        seen[label] = seen.get(label, 0) + 1
        rank.append((seen[label], label, index))
    return torch.tensor([index for _, _, index in sorted(rank)[:number]])


def attention_maps(model: Network, images: Float[Tensor, "b c h w"]) -> dict[str, Float[Tensor, "b h w"]]:
    """β per branch, mean over the channel groups, stretched over the image; only kernels on patches."""
    side = (int(images.shape[-2]), int(images.shape[-1]))
    result = {}
    for name, branch in probe(model, images).items():
        if branch.attention is not None and branch.attention.ndim == 4:
            mean = branch.attention.mean(1, keepdim=True)
            label = f"{name}, {mean.shape[-2]}×{mean.shape[-1]} patches"
            result[label] = functional.interpolate(mean, side, mode="nearest")[:, 0]
    return result


def _title(folder: RunFolder) -> str:
    options, final = folder.options(), folder.result()
    reached = None if final is None else headline_of(final, "test")
    words = "" if reached is None else f": test {reached[0]} {reached[1]:.2f} {unit_of(reached[0])}"
    return f"{options.model} on {options.data}{words} (run {folder.name})"


def draw_curves(figure: Any, folder: RunFolder) -> None:
    """Loss, the task's headline and the solver's work, over the epochs."""
    epochs = folder.epochs()
    figure.suptitle(_title(folder))
    has_solver = any("solver_steps" in record for record in epochs)
    axes = figure.subplots(1, 3 if has_solver else 2)
    monitored = "validation" if any("validation_loss" in record for record in epochs) else "test"
    judged = next(name for name in HEADLINES if any(f"train_{name}" in record for record in epochs))
    for axis, quantity, label in zip(
        axes, ("loss", judged), ("loss", f"{HEADLINES[judged]} ({unit_of(HEADLINES[judged])})"), strict=False
    ):
        for name, style in (("train", "--"), (monitored, "-")):
            points = [(r["epoch"], r[f"{name}_{quantity}"]) for r in epochs if f"{name}_{quantity}" in r]
            axis.plot(*zip(*points, strict=True), style, marker=".", label=name) if points else None
        axis.set(xlabel="epoch", ylabel=label)
        axis.legend(frameon=False)
    if epochs and max(record["train_loss"] for record in epochs) > 0:
        axes[0].set_yscale("log")
    if has_solver:
        _draw_solver(axes[2], epochs)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
        axis.xaxis.get_major_locator().set_params(integer=True)


def _draw_solver(axis: Any, epochs: list[dict[str, Any]]) -> None:
    numbers = [record["epoch"] for record in epochs]
    axis.plot(numbers, [record["solver_steps"] for record in epochs], marker=".", label="solver steps")
    axis.set(xlabel="epoch", ylabel="evaluations of the map")
    axis.set_ylim(bottom=0)
    measured = [(record["epoch"], record["beta_mean"]) for record in epochs if "beta_mean" in record]
    handles = axis.get_lines()
    if measured:
        right = axis.twinx()
        right.plot(*zip(*measured, strict=True), color="tab:green", marker=".", label="mean attention β")
        right.set(ylabel="β", ylim=(0, 1.02))
        right.spines["top"].set_visible(False)
        handles = [*handles, *right.get_lines()]
    axis.legend(handles, [handle.get_label() for handle in handles], frameon=False, loc="lower right")


def _draw_attention(figure: Any, images: Tensor, maps: dict[str, Tensor], titles: list[str]) -> None:
    figure.suptitle(
        "attention β of the patches: bright where the state explains the patch, or the patch is small; "
        "dark for outliers"
    )
    axes = figure.subplots(len(maps) + 1, len(images), squeeze=False)
    pictures = images.permute(0, 2, 3, 1).numpy()
    grey = pictures.mean(-1)
    low = min(float(values.min()) for values in maps.values())
    for column, title in enumerate(titles):
        picture = pictures[column]
        axes[0, column].imshow(picture[..., 0] if picture.shape[-1] == 1 else picture, cmap="gray")
        axes[0, column].set_title(title, fontsize=9)
        for row, values in enumerate(maps.values(), start=1):
            shown = axes[row, column].imshow(values[column].numpy(), vmin=low, vmax=1.0, cmap="viridis")
            # The image shines through as lightness.
            veil = np.zeros((*grey[column].shape, 4))
            veil[..., 3] = 0.3 * (1 - grey[column] / 255)
            axes[row, column].imshow(veil)
    for row, label in enumerate(["image", *maps]):
        axes[row, 0].set_ylabel(label.replace(", ", "\n"), fontsize=8)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    figure.colorbar(shown, ax=list(axes[1:].flat), label="β", shrink=0.9)


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
