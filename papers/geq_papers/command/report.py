"""``geq report RESULTS``: records as one HTML page, and its tables as Markdown and CSV."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geq.command.argument_parser import add_json, add_quiet, parse
from geq.command.terminal import WARNING, console_for, print_json
from geq.errors import DataError

if TYPE_CHECKING:
    from geq_papers.report.table import ReportTable

SUMMARY = """Write a page on the records of finished runs: verdicts, tables with published and obtained
figures, curves, costs. The page needs no other file and no network."""


def declare(parser: Any) -> None:
    parser.usage = "geq report [RESULTS] [options]"
    parser.add_argument(
        "results",
        metavar="RESULTS",
        type=str,
        nargs="?",
        default="results",
        help="folder (or file) of records, as 'geq reproduce' writes them; default results",
    )
    parser.add_argument("--output", type=str, default="report.html", help="file of the page")
    parser.add_argument("--markdown", type=str | None, default=None, help="folder for the tables as Markdown")
    parser.add_argument("--csv", type=str | None, default=None, help="folder for the tables as CSV")
    parser.add_argument(
        "--forest",
        type=str | None,
        default=None,
        help="PNG to write: differences with their intervals, the papers' and ours side by side",
    )
    parser.add_argument(
        "--runs",
        type=str | None,
        default=None,
        help="folder of runs whose analyses and saliency grids to include",
    )
    add_json(parser)
    add_quiet(parser)


def main(arguments: list[str]) -> int:
    asked = parse("report", SUMMARY, arguments, declare)

    from geq_papers.report.evidence import read, sort

    found = read(asked.results)  # before the experiments, which take seconds to load

    from geq_papers.experiment.experiment_registry import EXPERIMENTS
    from geq_papers.experiment.plan import usable
    from geq_papers.report.page import page, sections

    evidence = sort(*found, EXPERIMENTS, usable)
    parts = sections(evidence, asked.runs)
    write(Path(asked.output), page(evidence, parts))
    tables = [table for part in parts for table in part.tables]
    for folder, ending in ((asked.markdown, "md"), (asked.csv, "csv")):
        if folder is not None:
            write_tables(Path(folder), tables, ending)
    if asked.forest is not None:
        from geq_papers.report.forest import forest_png
        from geq_papers.report.section.claim import current

        write_bytes(Path(asked.forest), forest_png(current(evidence)))
    if asked.json:
        said = {"page": asked.output, "runs": len(evidence.records), "tables": len(tables)}
        print_json({**said, "complaints": list(evidence.complaints)})
        return 0
    console = console_for(quiet=asked.quiet)
    for complaint in evidence.complaints:
        console.print(f"note: {complaint}", style=WARNING, highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"{asked.output}: {len(evidence.records)} runs, {len(tables)} tables",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    return 0


def write_tables(folder: Path, tables: list[ReportTable], ending: str) -> None:
    for table in tables:
        # The name comes from a record, which may come from anywhere: no separator of folders is left of it.
        name = re.sub(r"[^\w.-]", "_", table.anchor)
        write(folder / f"{name}.{ending}", table.markdown() if ending == "md" else table.csv())


def write(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    from geq.atomic_io import write_durably

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, content)
    except OSError as problem:
        raise DataError(f"{path} cannot be written ({problem.strerror}): choose another place") from problem
