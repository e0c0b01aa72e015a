"""Accuracy under each corruption as bars, several runs side by side (GEQ figure 2)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from geq.analysis.calibration_picture import plain
from geq.atomic_io import write_durably
from geq.data.corruption.corruption_registry import ALL_GROUPS
from geq.training.matplotlib_figure import new_figure, png


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
