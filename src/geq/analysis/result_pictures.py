"""Pictures of a calibration: reliability diagram, confidences, scores; bars of a corruption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from geq.analysis.calibration_metrics import Reliability
from geq.atomic_io import write_durably
from geq.data.corruption.corruption_registry import ALL_GROUPS
from geq.training.matplotlib_figure import new_figure, png

INSIDE = "tab:blue"
OUTSIDE = ("tab:orange", "tab:red", "tab:purple")
PANELS = {
    "confidence": "log-odds against the prediction (confident: left)",
    "energy, summed": "energy G(z*; x), summed over equilibria",
    "β, mean": "−(mean β)",
}
"""Scores with a histogram, and what their axis says."""
CURVES = (
    "confidence",
    "energy, summed",
    "energy, unusual",
    "β, mean",
    "β, unusual",
    "confidence + energy, unusual",
)


def plain(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)


def draw_reliability(found: Reliability, figures: dict[str, float | int], path: Path, title: str) -> None:
    """Accuracy against confidence, and below it how many images have which confidence."""
    figure = new_figure(6.4, 7.2)
    figure.suptitle(title)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.3))
    bins = len(found.count)
    middle, width = (np.arange(bins) + 0.5) / bins, 1 / bins
    filled = (found.count > 0).numpy()
    accuracy, confidence = found.accuracy.numpy()[filled], found.confidence.numpy()[filled]
    above.bar(middle[filled], accuracy, width, color=INSIDE, edgecolor="white", label="accuracy of the bin")
    above.bar(
        middle[filled],
        confidence - accuracy,
        width,
        accuracy,
        color="none",
        hatch="////",
        edgecolor="tab:red",
        label="gap to its mean confidence",
    )
    above.plot([0, 1], [0, 1], "--", color="black", linewidth=1, label="calibrated")
    above.set(ylabel="accuracy", xlim=(0, 1), ylim=(0, 1.02))
    above.set_title(
        f"ECE {100 * figures['ece']:.2f} %   NLL {figures['nll']:.4f}   Brier {figures['brier']:.4f}",
        fontsize=10,
    )
    above.legend(frameon=False, loc="upper left")
    below.bar(middle, found.count.numpy(), width, color="tab:grey", edgecolor="white")
    below.set_yscale("symlog", linthresh=1)
    below.set_ylim(bottom=0)
    below.axvline(figures["accuracy"] / 100, color=INSIDE, label=f"accuracy {figures['accuracy']:.2f} %")
    below.axvline(
        figures["confidence"] / 100,
        color="tab:red",
        linestyle="--",
        label=f"mean confidence {figures['confidence']:.2f} %",
    )
    below.set(xlabel="confidence: probability of the predicted class", ylabel="images (log scale)")
    below.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=2)
    for axis in (above, below):
        plain(axis)
    write_durably(path, png(figure))


def draw_ood(
    inside: dict[str, Tensor],
    outside: dict[str, dict[str, Tensor]],
    areas: dict[str, dict[str, float]],
    path: Path,
    title: str,
) -> None:
    """Draw histograms of the scores, and ROC curves for each out-of-distribution set."""
    panels = [name for name in PANELS if name in inside]
    figure = new_figure(4.6 * max(len(panels), len(outside)), 8.4)
    figure.suptitle(f"{title}: out-of-distribution detection")
    above, below = figure.subfigures(2, 1)
    for axis, name in zip(above.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        histogram(axis, inside[name], {where: scores[name] for where, scores in outside.items()})
        axis.set(xlabel=PANELS[name], ylabel="density")
        axis.set_title(name, fontsize=10)
        axis.locator_params(axis="x", nbins=5)
        axis.legend(frameon=False, fontsize=8)
        plain(axis)
    for axis, (where, scores) in zip(
        below.subplots(1, len(outside), squeeze=False)[0], outside.items(), strict=True
    ):
        for name in CURVES:
            if name in inside:
                curve = roc(inside[name], scores[name])
                axis.plot(*curve, label=f"{name}: {areas[where][name]:.3f}", linewidth=1.4)
        axis.plot([0, 1], [0, 1], ":", color="black", linewidth=1)
        axis.set(
            xlabel="false positive rate (test images)",
            ylabel="true positive rate",
            xlim=(0, 1),
            ylim=(0, 1.02),
        )
        axis.set_title(f"ROC: {where}", fontsize=10)
        axis.set_box_aspect(1)
        axis.legend(
            frameon=False,
            fontsize=8,
            title="AUROC",
            title_fontsize=8,
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),  # beside the axes: curves near chance fill them
        )
        plain(axis)
    write_durably(path, png(figure))


def histogram(axis: Any, inside: Tensor, outside: dict[str, Tensor]) -> None:
    """Densities over the range that holds all but the outermost 0.5 % of each set."""
    every = [inside, *outside.values()]
    low = min(float(values.quantile(0.005)) for values in every)
    high = max(float(values.quantile(0.995)) for values in every)
    if high <= low:  # a score that never varies
        low, high = low - 0.5, low + 0.5
    edges = np.linspace(low, high, 41)
    sets = {"test images": inside, **outside}
    for (name, values), colour in zip(sets.items(), (INSIDE, *OUTSIDE), strict=False):
        clipped = values.clamp(low, high).numpy()
        axis.hist(clipped, edges, density=True, histtype="stepfilled", alpha=0.2, color=colour)
        axis.hist(clipped, edges, density=True, histtype="step", linewidth=1.4, color=colour, label=name)


def roc(inside: Tensor, outside: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares above a threshold that falls over all values: of test images, of the other set."""
    thresholds = torch.cat([inside, outside]).unique().flip(0)
    below_inside = torch.searchsorted(inside.sort().values, thresholds)
    below_outside = torch.searchsorted(outside.sort().values, thresholds)
    called = 1 - below_inside.double() / len(inside)
    noticed = 1 - below_outside.double() / len(outside)
    start = torch.zeros(1, dtype=torch.float64)
    return torch.cat([start, called]).numpy(), torch.cat([start, noticed]).numpy()


def draw_corruptions(runs: dict[str, tuple[float, dict[str, float]]], path: Path, title: str) -> None:
    """``runs`` has the clean error and the mean error of each corruption in %, by the name of the run."""
    seen = next(iter(runs.values()))[1]
    groups = {group: [name for name in members if name in seen] for group, members in ALL_GROUPS.items()}
    groups = {group: members for group, members in groups.items() if members}
    names = [name for members in groups.values() for name in members]
    labels = ["clean", *names, "mean"]
    # Gaps set the clean bar, the groups and the mean apart.
    places, place = [], 0.0
    firsts = {members[0] for members in groups.values()} | {"mean"}
    for name in labels:
        place += 1.6 if name in firsts else 1.0
        places.append(place)
    figure = new_figure(13.0, 5.2)
    axes = figure.add_subplot()
    width = 0.84 / len(runs)
    for number, (run, (clean, errors)) in enumerate(runs.items()):
        mean = sum(errors[name] for name in names) / len(names)
        heights = [100 - error for error in (clean, *(errors[name] for name in names), mean)]
        left = np.asarray(places) + (number - (len(runs) - 1) / 2) * width
        axes.bar(left, heights, width, label=f"{run}: clean {100 - clean:.1f} %, mean {100 - mean:.1f} %")
    axes.set_xticks(places, [name.replace("_", " ") for name in labels], rotation=45, ha="right")
    axes.set_ylabel("accuracy (%)")
    axes.set_ylim(0, 100)
    axes.set_xlim(places[0] - 0.8, places[-1] + 0.8)
    for group, members in groups.items():
        inside = [places[labels.index(name)] for name in members]
        axes.text(sum(inside) / len(inside), 101, group, ha="center", va="bottom", color="dimgrey")
    axes.set_title(title, pad=22)
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=min(len(runs), 3))
    plain(axes)
    axes.grid(False, axis="x")
    axes.set_axisbelow(True)
    write_durably(path, png(figure))
