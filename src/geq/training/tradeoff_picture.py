"""The trade-off of a study as a plot."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from geq.training.durable import write_durably
from geq.training.tradeoff import Row


def draw_tradeoff(rows: list[Row], path: Path, title: str) -> None:
    """Accuracy against time on the left, against the residual on the right; a point per setting."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    left, right = figure.subplots(1, 2, sharey=True)
    _scatter(left, rows, [row.inference + row.back_propagation for row in rows])
    left.set_xlabel("inference + back-propagation, ms per image")
    left.set_ylabel("test accuracy, %")
    left.set_xlim(left=0)
    _scatter(right, rows, [row.residual for row in rows])
    right.set_xscale("log")
    right.set_xlabel("relative residual of the state")
    left.legend(loc="lower right")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    write_durably(path, buffer.getvalue())


def _scatter(axes: Any, rows: list[Row], positions: list[float]) -> None:
    for kind, marker in (("unrolled", "o"), ("IFT", "s")):
        chosen = [(x, row) for x, row in zip(positions, rows, strict=True) if row.label.startswith(kind)]
        style = "-" if kind == "unrolled" else "none"
        axes.plot(
            [x for x, _ in chosen], [row.accuracy for _, row in chosen], marker=marker, ls=style, label=kind
        )
        # Points of one kind are written above, of the other below, so that neighbours can be read.
        offset = (6, 6) if kind == "unrolled" else (6, -14)
        for x, row in chosen:
            axes.annotate(
                row.label.split(", ")[1], (x, row.accuracy), xytext=offset, textcoords="offset points"
            )
    axes.margins(0.25, 0.15)
    axes.grid(alpha=0.3)
