"""Records as a table for the terminal and as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from geq.training.matplotlib_figure import new_figure


def target(record: dict[str, Any]) -> str:
    if record["at_least"] is not None:
        return f"≥ {record['at_least']:g}"
    return "–" if record["at_most"] is None else f"≤ {record['at_most']:g}"


def verdict(record: dict[str, Any]) -> str:
    return {True: "met", False: "missed", None: ""}[record["met"]]


def show(records: list[dict[str, Any]]) -> None:
    """A table of what was measured, and below it what was not, with the reason."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    measured = [record for record in records if record["status"] == "measured"]
    table = Table(
        title=f"{len(measured)} ratios",
        caption="medians of runs in turns in one process; in brackets the middle half",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("what", no_wrap=True)
    for name in ("ratio", "spread"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("", "target", "verdict"):
        table.add_column(name, no_wrap=True)
    for record in measured:
        value = record["ratio"]
        spread = "" if value["repeats"] == 1 else f"[{value['low']:.3g}, {value['high']:.3g}]"
        table.add_row(
            record["what"],
            f"{value['median']:.3g}",
            spread.replace("[", r"\["),
            record["unit"],
            target(record),
            verdict(record),
        )
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, 160)
    console.print(table)
    for record in records:
        if record["status"] != "measured":
            console.print(f"{record['status']}: {record['case']}: {record['reason']}", markup=False)


def plot(records: list[dict[str, Any]], path: Path) -> None:
    """Measured ratios with their spread, and their targets as ticks."""
    measured = [record for record in records if record["status"] == "measured"][::-1]
    figure = new_figure(9.0, 1 + 0.25 * len(measured), "the plot of geq bench")
    axes = figure.add_subplot()
    colours = {True: "tab:green", False: "tab:red", None: "tab:grey"}
    for row, record in enumerate(measured):
        value, colour = record["ratio"], colours[record["met"]]
        axes.plot([value["low"], value["high"]], [row, row], color=colour, linewidth=3, alpha=0.4)
        axes.plot([value["median"]], [row], "o", color=colour)
        for bound in (record["at_least"], record["at_most"]):
            if bound is not None:
                axes.plot([bound], [row], "|", color="black", markersize=10)
    axes.set_yticks(range(len(measured)), [f"{r['what']} ({r['unit']})" for r in measured], fontsize=7)
    axes.set_xscale("log")
    axes.axvline(1.0, color="lightgrey", zorder=0)
    axes.set_xlabel("ratio; bar: middle half of the repeats; tick: target")
    figure.savefig(path)
