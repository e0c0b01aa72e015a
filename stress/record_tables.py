"""The records as the tables of README.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from geq.number_format import rough_duration
from stress.stress_parts import PARTS, RECORD

README = RECORD.parent / "README.md"
BEGIN, END = "<!-- records -->", "<!-- end of records -->"


def tables(folder: Path = RECORD) -> str:
    """Return one table for each part that has a record, whether it held or not."""
    found = []
    for name, part in PARTS.items():
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        versions = ", ".join(f"{which} {version}" for which, version in record["versions"].items())
        found += [
            f"### `{name}`: {part.summary}",
            "",
            f"{record['day']}, {duration(record)}, {versions}.",
            "",
            "| attack | tried | held | | time |",
            "|---|--:|--:|---|--:|",
            *(line(row) for row in record["rows"]),
            "",
        ]
    return "\n".join(found)


def line(row: dict[str, Any]) -> str:
    survived = f"{row['survived']:,}" if row["held"] else f"**{row['survived']:,}**"
    what, note = (row[name].replace("|", "\\|").replace("\n", " ") for name in ("what", "note"))
    return f"| {what} | {row['tried']:,} | {survived} | {note} | {words(row.get('seconds'))} |"


def words(seconds: float | int | None) -> str:
    return "not recorded" if seconds is None else rough_duration(float(seconds))


def duration(record: dict[str, Any]) -> str:
    """Return the time of a part, and that of its processes where several ran side by side."""
    whole = record["seconds"]
    each = sum(row.get("seconds") or 0.0 for row in record["rows"])
    beside = f" ({rough_duration(each)} summed over its processes)" if each > 1.2 * (whole or 0.0) else ""
    return f"{words(whole) if whole else 'wall time not recorded'}{beside}"


def written(text: str, folder: Path = RECORD) -> str:
    """Return the text of README.md with the tables of the present records."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{tables(folder)}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    README.write_text(written(README.read_text(encoding="utf-8")), encoding="utf-8")
