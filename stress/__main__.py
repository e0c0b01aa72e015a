"""``python -m stress [PART ...] [--long]``: run the parts, print a table, write a record."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from dataclasses import asdict, replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from stress.stress_parts import PARTS, RECORD, StressRow


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m stress", description=__doc__)
    parser.add_argument("part", nargs="*", metavar="PART", help=f"default: all of {', '.join(PARTS)}")
    parser.add_argument("--long", action="store_true", help="hours instead of minutes; writes into record/")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=None, help="folder of the record")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.part if name not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}: choose from {', '.join(PARTS)}")
    output = asked.output or (RECORD if asked.long else None)
    held = True
    for name in asked.part or PARTS:
        begun = time.monotonic()
        print(f"{name}: {PARTS[name].summary}", flush=True)
        rows, since = [], begun
        for row in PARTS[name].load()(not asked.long, asked.seed):
            # Rows that are made side by side say themselves how long they took.
            rows.append(replace(row, seconds=row.seconds or round(time.monotonic() - since, 1)))
            since = time.monotonic()
            print(line(row), flush=True)
        seconds = time.monotonic() - begun
        print(f"  {seconds:.0f} s", flush=True)
        held = held and bool(rows) and all(row.held for row in rows)
        if output is not None:
            write(output / f"{name}.json", name, rows, seconds, asked)
    print("everything held" if held else "NOT everything held", flush=True)
    return 0 if held else 1


def line(row: StressRow) -> str:
    mark = "held  " if row.held else "FAILED"
    return f"  {mark} {row.survived:>9,} of {row.tried:>9,}  {row.what}" + (
        f": {row.note}" if row.note else ""
    )


def write(path: Path, name: str, rows: list[StressRow], seconds: float, asked: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "part": name,
        "form": "long" if asked.long else "short",
        "seed": asked.seed,
        "seconds": round(seconds, 1),
        "day": datetime.now(timezone.utc).date().isoformat(),
        "versions": {
            "python": platform.python_version(),
            **{p: version(p) for p in ("geq", "torch", "numpy")},
        },
        "rows": [{**asdict(row), "held": row.held} for row in rows],
    }
    path.write_text(anonymous(one_row_a_line(record)))


def one_row_a_line(record: dict[str, Any]) -> str:
    head = json.dumps({key: value for key, value in record.items() if key != "rows"}, indent=1)
    rows = ",\n".join(f"  {json.dumps(row)}" for row in record["rows"])
    return head.removesuffix("\n}") + f',\n "rows": [\n{rows}\n ]\n}}\n'


def anonymous(text: str) -> str:
    """Replace the folders of this machine, which tracebacks name."""
    places = {
        "GEQ": Path(__file__).parents[1],
        "ENVIRONMENT": sys.prefix,
        "PYTHON": sys.base_prefix,
        "TEMPORARY": tempfile.gettempdir(),
        "HOME": Path.home(),
    }
    for word, place in places.items():
        text = text.replace(str(place), word)
    return text


if __name__ == "__main__":
    sys.exit(main())
