"""What the records say, as the tables of README.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from geq.experiment.cost import in_words
from stress.part import PARTS, RECORD

README = RECORD.parent / "README.md"
BEGIN, END = "<!-- records -->", "<!-- end of records -->"


def tables(folder: Path = RECORD) -> str:
    """One table for each part that has a record, those that did not hold not left out."""
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
            f"{record['day']}, {in_words(float(record['seconds']))}, {versions}.",
            "",
            "| attack | tried | held | |",
            "|---|--:|--:|---|",
            *(line(row) for row in record["rows"]),
            "",
        ]
    return "\n".join(found)


def line(row: dict[str, Any]) -> str:
    survived = f"{row['survived']:,}" if row["held"] else f"**{row['survived']:,}**"
    return f"| {cell(row['what'])} | {row['tried']:,} | {survived} | {cell(row['note'])} |"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def written(text: str, folder: Path = RECORD) -> str:
    """The text of README.md with the tables of the records that are there now."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{tables(folder)}\n{END}{rest.split(END)[1]}"


def main() -> None:
    README.write_text(written(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
