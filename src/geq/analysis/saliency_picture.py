"""One picture per image: saliency of each network, and attention of its equilibria."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import UInt8
from torch import Tensor

from geq.analysis.explanation import BranchView, Explanation
from geq.analysis.saliency import stretched
from geq.training.matplotlib_figure import new_figure, png

SALIENCY, WEIGHT, ENERGY = "inferno", "viridis", "cividis"
"""Colour maps whose lightness rises evenly, so that they can be read without seeing colours."""
PANEL, LARGE, BAR = 1.55, 2.9, 0.75
"""Inches of a small panel, of a large one, and of their bars and labels."""


def draw_saliency(
    title: str, images: list[UInt8[Tensor, "1 c h w"]], explanations: list[Explanation]
) -> bytes:
    """A PNG with one block per network, each with the image as that network sees it."""
    sizes = [block_size(explanation) for explanation in explanations]
    width, height = max(width for width, _ in sizes), 0.45 + sum(height for _, height in sizes)
    figure = new_figure(width, height, "pictures of explanations", "explain")
    figure.suptitle(title, fontsize=12, fontweight="bold")
    blocks = figure.subfigures(
        len(explanations), 1, squeeze=False, height_ratios=[height for _, height in sizes]
    )
    for block, image, explanation in zip(blocks[:, 0], images, explanations, strict=True):
        draw_block(block, image, explanation)
    return png(figure)


def shown_branches(explanation: Explanation) -> tuple[BranchView, ...]:
    """Equilibria with something to show that the large panels do not show already."""
    only = len(explanation.branches) == 1
    return tuple(
        branch
        for branch in explanation.branches
        if not (only and branch.maps.mean is None and branch.maps.energy is None)
    )


def rows_of(branches: tuple[BranchView, ...]) -> list[str]:
    rows = ["Grad-CAM"]
    if any(branch.maps.mean is not None for branch in branches):
        rows += ["β, mean", "β, least"]
    if any(branch.maps.energy is not None for branch in branches):
        rows.append("energy")
    return rows


def block_size(explanation: Explanation) -> tuple[float, float]:
    """Width and height of a network's block in inches."""
    branches = shown_branches(explanation)
    header = 0.5
    if not branches:
        return max(2 * LARGE + BAR, 8.0), LARGE + header
    rows = rows_of(branches)
    small = len(rows) * (PANEL + 0.2) + (0.45 if "energy" in rows else 0.0)
    height = max(small, 2 * LARGE if len(rows) > 2 else LARGE) + header
    left = LARGE if len(rows) > 2 else 2 * LARGE
    return left + 0.5 + len(branches) * (PANEL + 0.15) + 2 * BAR, height


def draw_block(figure: Any, image: UInt8[Tensor, "1 c h w"], explanation: Explanation) -> None:
    branches = shown_branches(explanation)
    figure.suptitle(
        f"{explanation.run} ({explanation.model}): {explanation.label}, {100 * explanation.confidence:.1f} %",
        fontsize=11,
    )
    if not branches:
        draw_large(figure, image, explanation, beside=True)
        return
    rows = rows_of(branches)
    beside = len(rows) <= 2
    left = (2 * LARGE if beside else LARGE) + 0.3
    width, _ = block_size(explanation)
    parts = figure.subfigures(1, 2, width_ratios=(left, width - left))
    draw_large(parts[0], image, explanation, beside)
    draw_branches(parts[1], image, branches, rows, explanation.target)


def as_picture(image: UInt8[Tensor, "1 c h w"]) -> np.ndarray:
    picture = image[0].permute(1, 2, 0).numpy()
    return np.repeat(picture, 3, 2) if picture.shape[-1] == 1 else picture


def draw_large(figure: Any, image: UInt8[Tensor, "1 c h w"], explanation: Explanation, beside: bool) -> None:
    axes = figure.subplots(*((1, 2) if beside else (2, 1)))
    axes[0].imshow(as_picture(image))
    axes[0].set_title("image, as the network sees it", fontsize=9)
    if explanation.saliency is None:
        axes[1].axis("off")
        axes[1].text(0.5, 0.5, "no Grad-CAM", ha="center", va="center", transform=axes[1].transAxes)
    else:
        overlay(axes[1], image, explanation.saliency)
        axes[1].set_title(f"Grad-CAM for {explanation.target}\nat {explanation.place}", fontsize=9)
    for axis in axes:
        axis.set(xticks=[], yticks=[])


def overlay(axis: Any, image: UInt8[Tensor, "1 c h w"], saliency: Tensor) -> Any:
    """Saliency relative to its maximum, over the image in grey."""
    height, width = int(image.shape[-2]), int(image.shape[-1])
    top = float(saliency.max())
    values = stretched(saliency[None].float(), height, width)[0] / (top if top > 0 else 1.0)
    grey = image[0].float().mean(0).numpy()
    axis.imshow(grey, cmap="gray", vmin=0, vmax=255)
    shown = axis.imshow(
        values.clamp(0, 1).numpy(), cmap=SALIENCY, vmin=0, vmax=1, alpha=0.65, interpolation="bilinear"
    )
    if top <= 0:
        axis.text(
            0.5, 0.5, "no evidence for it", color="white", fontsize=8, ha="center", transform=axis.transAxes
        )
    return shown


def draw_branches(
    figure: Any,
    image: UInt8[Tensor, "1 c h w"],
    branches: tuple[BranchView, ...],
    rows: list[str],
    target: str,
) -> None:
    side = int(image.shape[-2]), int(image.shape[-1])
    axes = figure.subplots(len(rows), len(branches), squeeze=False)
    for column, branch in enumerate(branches):
        places = "×".join(str(n) for n in branch.saliency.shape)
        axes[0, column].set_title(f"{branch.label}\n{places}", fontsize=9)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    words = {
        "Grad-CAM": f"Grad-CAM\n{target}",
        "β, mean": "β, mean over\nchannel groups",
        "β, least": "β, least of the\nchannel groups",
        "energy": "share in the\nenergy G",
    }
    for row, name in enumerate(rows):
        axes[row, 0].set_ylabel(words[name], fontsize=9)
        line = axes[row]
        if name == "Grad-CAM":
            for axis, branch in zip(line, branches, strict=True):
                shown = overlay(axis, image, branch.saliency)
            bar = figure.colorbar(shown, cax=beside_of(line[-1]), ticks=(0, 1))
            bar.set_label("of its maximum", fontsize=8)
        elif name == "energy":
            for axis, branch in zip(line, branches, strict=True):
                draw_energy(figure, axis, branch, side)
        else:
            draw_weights(figure, line, branches, name, side)


def draw_weights(
    figure: Any, line: Any, branches: tuple[BranchView, ...], name: str, side: tuple[int, int]
) -> None:
    maps = [branch.maps.mean if name == "β, mean" else branch.maps.least for branch in branches]
    low = min(float(values.min()) for values in maps if values is not None)
    low = min(low, 0.999)  # an empty range has no colours
    shown = None
    for axis, values in zip(line, maps, strict=True):
        if values is None:
            absent(axis, "no β")
        else:
            stretched_values = stretched(values.float(), *side, mode="nearest")[0].numpy()
            shown = axis.imshow(stretched_values, cmap=WEIGHT, vmin=low, vmax=1)
    bar = figure.colorbar(
        shown, cax=beside_of(line[-1]), ticks=(low, (low + 1) / 2, 1), format=number_format(1 - low)
    )
    bar.set_label("β", fontsize=9)


def draw_energy(figure: Any, axis: Any, branch: BranchView, side: tuple[int, int]) -> None:
    if branch.maps.energy is None:
        absent(axis, "no sum over\nplaces")
        return
    values = stretched(branch.maps.energy.float(), *side, mode="nearest")[0]
    low, high = float(values.min()), float(values.max())
    if not high > low:
        high = low + max(abs(low), 1.0) * 1e-3
    shown = axis.imshow(values.numpy(), cmap=ENERGY, vmin=low, vmax=high)
    below = axis.inset_axes((0.0, -0.13, 1.0, 0.06))
    bar = figure.colorbar(
        shown, cax=below, orientation="horizontal", ticks=(low, high), format=number_format(high - low)
    )
    bar.ax.tick_params(labelsize=8)
    # The ends of the bar, not beyond them: neighbouring bars must not run into each other.
    for text, alignment in zip(bar.ax.get_xticklabels(), ("left", "right"), strict=True):
        text.set_horizontalalignment(alignment)


def beside_of(axis: Any) -> Any:
    """Room for a bar that takes nothing from its row, so that the columns of all rows stay aligned."""
    return axis.inset_axes((1.06, 0.0, 0.06, 1.0))


def number_format(spread: float) -> str:
    """Return the number of decimals that distinguish the ends of a scale.

    >>> number_format(0.5), number_format(0.004), number_format(25.0)
    ('%.2f', '%.4f', '%.0f')
    """
    return f"%.{min(6, max(0, 1 - math.floor(math.log10(spread))))}f"


def absent(axis: Any, words: str) -> None:
    axis.text(0.5, 0.5, words, ha="center", va="center", fontsize=8, transform=axis.transAxes)
    axis.spines[:].set_visible(False)
