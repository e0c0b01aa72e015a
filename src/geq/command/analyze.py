"""``geq analyze RUN``: certificates and the bounds of the theory, computed on a trained network and its data.

Results are kept in the run's folder as ``analysis/NAME.json``.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from geq.command.option import parse

SUMMARY = """Analyse the trained network of a run: what its weights prove, and how the theory's bounds fare.

Each part is kept as JSON below RUN/analysis and not computed again unless the weights, the settings or
--again say so."""


def declare(parser: Any) -> None:
    from geq.analysis.part import GROUPS, PARTS
    from geq.analysis.subject import Settings

    usual = Settings()
    parts = "; ".join(f"{name}: {part.summary}" for name, part in PARTS.items())
    groups = "; ".join(f"{name} = {', '.join(members)}" for name, members in GROUPS.items())
    parser.usage = "geq analyze RUN [options]"
    parser.add_argument("run", type=str, help="folder of a run, or its name below --runs")
    parser.add_argument("--runs", type=str, default="runs", help="folder that holds the runs")
    parser.add_argument(
        "--only", type=str | None, default=None, help=f"parts, separated by commas. {parts}. {groups}"
    )
    parser.add_argument("--again", action="store_true", help="compute finished parts anew")
    parser.add_argument("--images", type=int, default=usual.images, help="test images to look at")
    parser.add_argument(
        "--train_images", type=int, default=usual.train_images, help="training images for the margin loss"
    )
    parser.add_argument("--draws", type=int, default=usual.draws, help="draws of a Monte-Carlo estimate")
    parser.add_argument("--steps", type=int, default=usual.steps, help="steps of a gradient ascent")
    parser.add_argument("--margin", type=float, default=usual.margin, help="η of the margin loss")
    parser.add_argument("--confidence", type=float, default=usual.confidence, help="δ of the bounds")
    parser.add_argument("--seed", type=int, default=usual.seed, help="of everything random")
    parser.add_argument("--data_root", type=str | None, default=None, help="folder of the datasets")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def main(arguments: list[str]) -> int:
    asked = parse("analyze", SUMMARY, arguments, declare)

    from geq.analysis.part import chosen, run_parts
    from geq.analysis.result import Result
    from geq.analysis.subject import Settings
    from geq.training.run import RunFolder

    names = chosen(None if asked.only is None else [name.strip() for name in asked.only.split(",")])
    settings = Settings(**{name: getattr(asked, name) for name in asdict(Settings())})
    folder = RunFolder.find(asked.run, asked.runs)

    def report(name: str, result: Result, new: bool) -> None:
        if not asked.json:
            show(name, result, new)

    results = run_parts(folder, names, settings, report, asked.again, asked.data_root)
    if asked.json:
        mapping = {name: result.as_mapping()["values"] for name, result in results.items()}
        print(json.dumps(mapping, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print(f"kept in {folder.path / 'analysis'}")
    return 0


def show(name: str, result: Any, new: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from geq.analysis.part import PARTS

    colours = {"violated": "bold red", "holds": "green", "yes": "green", "not proved": "yellow"}
    console = Console()
    kept = "" if new else " (kept from before; --again computes it anew)"
    console.print(f"[bold]{name}[/bold] · {PARTS[name].summary}{kept}", highlight=False, soft_wrap=True)
    for data in result.tables:
        table = Table(title=data.title, title_justify="left", box=box.SIMPLE_HEAD)
        for number, column in enumerate(data.columns):
            table.add_column(column, justify="left" if number == 0 else "right")
        for row in data.rows:
            table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row))
        console.print(table)
    for note in result.notes:
        console.print(f"  {note}", highlight=False, soft_wrap=True)
    console.print()
