"""The trade-off of a study as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from geq.atomic_io import write_durably
from geq.training.matplotlib_figure import new_figure, png
from geq_papers.tradeoff import Row

KINDS = {"unrolled": ("C0", "o", (6, 6)), "IFT": ("C1", "s", (6, -14))}
"""Colour, marker, and where the label of a point stands: above or below, so that neighbours can be read."""


def draw_tradeoff(rows: list[Row], path: Path, title: str) -> None:
    """Accuracy against time on the left, the residual of each setting on the right."""
    figure = new_figure(12.0, 4.8)
    figure.suptitle(title)
    left, right = figure.subplots(1, 2)
    _accuracy(left, rows)
    _residual(right, rows)
    write_durably(path, png(figure))


def _accuracy(axes: Any, rows: list[Row]) -> None:
    for kind, (colour, marker, offset) in KINDS.items():
        chosen = [row for row in rows if row.label.startswith(kind)]
        times = [row.inference + row.back_propagation for row in chosen]
        style = "-" if kind == "unrolled" else "none"
        axes.plot(times, [row.accuracy for row in chosen], color=colour, marker=marker, ls=style, label=kind)
        for time, row in zip(times, chosen, strict=True):
            setting = row.label.split(", ")[1]
            axes.annotate(setting, (time, row.accuracy), xytext=offset, textcoords="offset points")
    axes.set_xlabel("inference + back-propagation, ms per image")
    axes.set_ylabel("test accuracy, %")
    axes.margins(0.2, 0.15)
    axes.set_xlim(left=0)
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)


def _residual(axes: Any, rows: list[Row]) -> None:
    colours = [next(c for kind, (c, _, _) in KINDS.items() if row.label.startswith(kind)) for row in rows]
    bars = axes.barh([row.label for row in rows], [row.residual for row in rows], color=colours)
    axes.bar_label(bars, [f"{row.residual:.1e}" for row in rows], padding=4)
    axes.set_xscale("log")
    axes.margins(x=0.25)
    axes.invert_yaxis()
    axes.set_xlabel("relative residual of the state")
