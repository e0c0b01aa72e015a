"""Records as tables for the terminal and the documentation, and as a plot."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from geq.command.terminal import console_for, new_table
from geq.errors import DataError
from geq.training.matplotlib_figure import new_figure


def target(record: dict[str, Any]) -> str:
    if record["at_least"] is not None:
        return f"≥ {record['at_least']:g}"
    return "–" if record["at_most"] is None else f"≤ {record['at_most']:g}"


def verdict(record: dict[str, Any]) -> str:
    return {True: "met", False: "missed", None: ""}[record["met"]]


def show(records: list[dict[str, Any]]) -> None:
    """A table of what was measured, and below it what was not, with the reason."""
    measured = [record for record in records if record["status"] == "measured"]
    columns = ("what", ">ratio", ">spread", "", "target", "verdict")
    table = new_table(
        *columns,
        unbroken=tuple(column.removeprefix(">") for column in columns),
        title=f"{len(measured)} ratios",
        caption="medians of runs in turns in one process; in brackets the middle half",
    )
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
    console = console_for()
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


Record = dict[str, Any]
BRANCH = re.compile(r"^b\d+ ")


def read_records(path: Path) -> list[Record]:
    """The records of one run of ``geq bench``."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.strip()]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise DataError(f"{path} must be a file of records that geq bench wrote: {problem}") from problem


def markdown(records: Iterable[Record], brief: bool = False) -> str:
    """A row for each ratio that has a target or concerns a whole network, a column for each thread count.

    ``brief`` has one row for all branches, with the least and the largest of their medians.
    """
    shown = [
        record
        for record in records
        if record["status"] == "measured" and (record["met"] is not None or record["case"] == "network")
    ]
    counts = sorted({record["threads"] for record in shown})
    rows: dict[tuple[str, str], dict[int, list[Record]]] = {}
    for record in shown:
        what = BRANCH.sub("", record["what"]) if brief else record["what"]
        rows.setdefault((what, record["unit"]), {}).setdefault(record["threads"], []).append(record)
    heads = [f"{count} thread{'s' if count > 1 else ''}" for count in counts]
    lines = [" | ".join(["", "what", *heads, "", "target", ""]).strip(), "|---" * (len(counts) + 3) + "|"]
    for (what, unit), found in rows.items():
        cells = [cell(found.get(count, [])) for count in counts]
        wanted = target(next(iter(found.values()))[0])
        lines.append(" | ".join(["", what, *cells, unit, wanted, ""]).strip())
    return "\n".join(lines)


def cell(records: list[Record]) -> str:
    """A median with its middle half, or the range of several; targets that were missed are said."""
    if not records:
        return "–"
    missed = sum(record["met"] is False for record in records)
    if len(records) > 1:
        medians = [record["ratio"]["median"] for record in records]
        said = f", {missed} of {len(records)} missed" if missed else ""
        return f"{number(min(medians))}–{number(max(medians))}{said}"
    value = records[0]["ratio"]
    spread = "" if value["repeats"] == 1 else f" ({value['low']:.2f}–{value['high']:.2f})"
    return number(value["median"]) + spread + (", missed" if missed else "")


def number(value: float) -> str:
    return f"{value:.2g}" if abs(value) < 0.1 else f"{value:.2f}"
