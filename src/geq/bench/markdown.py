"""Records as the performance table of the README."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from geq.bench.picture import target
from geq.error import DataError

Record = dict[str, Any]


def read_records(path: Path) -> list[Record]:
    """The records of one run of ``geq bench``."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.strip()]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise DataError(f"{path} must be a file of records that geq bench wrote: {problem}") from problem


def markdown(records: Iterable[Record]) -> str:
    """A row for each ratio that has a target or concerns a whole network, a column for each thread count."""
    shown = [
        record
        for record in records
        if record["status"] == "measured" and (record["met"] is not None or record["case"] == "network")
    ]
    counts = sorted({record["threads"] for record in shown})
    rows: dict[tuple[str, str], dict[int, Record]] = {}
    for record in shown:
        rows.setdefault((record["what"], record["unit"]), {})[record["threads"]] = record
    heads = [f"{count} thread{'s' if count > 1 else ''}" for count in counts]
    lines = [" | ".join(["", "what", *heads, "", "target", ""]).strip(), "|---" * (len(counts) + 3) + "|"]
    for (what, unit), found in rows.items():
        cells = [cell(found.get(count)) for count in counts]
        lines.append(" | ".join(["", what, *cells, unit, target(next(iter(found.values()))), ""]).strip())
    return "\n".join(lines)


def cell(record: Record | None) -> str:
    """The median with its middle half; a target that was missed is said."""
    if record is None:
        return "–"
    value = record["ratio"]
    median = f"{value['median']:.2g}" if abs(value["median"]) < 0.1 else f"{value['median']:.2f}"
    spread = "" if value["repeats"] == 1 else f" ({value['low']:.2f}–{value['high']:.2f})"
    return median + spread + (", missed" if record["met"] is False else "")
