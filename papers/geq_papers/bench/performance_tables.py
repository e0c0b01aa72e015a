"""Records as the performance tables of the documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from geq.errors import DataError
from geq_papers.bench.terminal_output import target

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
