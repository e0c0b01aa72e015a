"""``geq bench``: speed and memory against peers, as ratios from one run."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geq.command.argument_parser import add_json, parse
from geq.command.terminal import print_json
from geq.errors import OptionError, unknown_name

PER_BRANCH = ("step", "layer", "tolerance", "inference", "solver", "memory", "gradient")
NAMES = (
    *(f"{name}_{branch}" for name in PER_BRANCH for branch in ("b32", "b16", "b8", "b4")),
    *("network", "small", "whole", "layout", "launch", "choice", "growth", "thread", "start"),
)
"""Names of :data:`~geq_papers.bench.case_list.CASES`, which loads torch; a test compares them."""


def declare(parser: Any) -> None:
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    parser.add_argument("--case", type=str, default=None, help="run one case, or several: a,b")
    parser.add_argument(
        "--quick", action="store_true", help="few repeats: checks that it runs, measures nothing"
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="number of threads of torch; with 1, CPU time is compared"
    )
    parser.add_argument("--output", type=Path, default=Path("bench.jsonl"), help="file of records")
    parser.add_argument(
        "--table", type=Path, nargs="+", default=None, help="only print these records as Markdown"
    )
    parser.add_argument("--brief", action="store_true", help="with --table: one row for all branches")
    add_json(parser)
    parser.add_argument("--plot", type=Path, default=None, help="also draw the ratios: .png, .pdf or .svg")


def chosen(pattern: str | None, known: Sequence[str]) -> Sequence[str]:
    names = known if pattern is None else [name.strip() for name in pattern.split(",")]
    for name in names:
        if name not in known:
            raise unknown_name("bench case", name, known)
    return names


def main(arguments: list[str]) -> int:
    options = parse("bench", "Speed and memory against peers, as ratios from one run.", arguments, declare)
    if options.table is not None:
        from geq_papers.bench.result_tables import markdown, read_records

        found = [record for path in options.table for record in read_records(path)]
        if options.json:
            print_json(found)
        else:
            print(markdown(found, options.brief))
        return 0
    names = chosen(options.case, NAMES)

    from geq_papers.bench.case_list import CASES
    from geq_papers.bench.case_process import run_case
    from geq_papers.bench.result_tables import plot, show

    if options.list:
        if options.json:
            print_json([{"name": case.name, "summary": case.summary} for case in CASES.values()])
            return 0
        for case in CASES.values():
            print(f"{case.name:<16} {case.summary}")
        return 0
    if options.threads < 1:
        raise OptionError(f"--threads must be at least 1: got {options.threads}")
    records: list[dict[str, Any]] = []
    with options.output.open("w", encoding="utf-8") as file:
        for name in names:
            print(f"{name} …", flush=True, file=sys.stderr if options.json else sys.stdout)
            for record in run_case(name, options.threads, options.quick):
                records.append(record)
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
                file.flush()
    if options.json:
        print_json(records)
    else:
        show(records)
    if options.plot is not None:
        plot(records, options.plot)
    return 1 if any(record["status"] == "failed" for record in records) else 0


WORDS = {"case": NAMES}
"""Option -> the words for it, for the completion of shells."""
