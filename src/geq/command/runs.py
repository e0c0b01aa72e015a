"""``geq runs``: every run in a folder, with how far it is and what it reached."""

from __future__ import annotations

from typing import Any

from geq.command.argument_parser import add_json, parse
from geq.command.terminal import BAD, console_for, new_table, print_json
from geq.number_format import percent


def declare(parser: Any) -> None:
    parser.add_argument("--runs", type=str, default="runs", help="folder that holds the runs")
    add_json(parser)


def describe(folder: Any) -> dict[str, Any]:
    """One run in a row; a damaged one says so instead of hiding the others."""
    from geq.errors import GeqError
    from geq.training.headline_metric import headline_of

    try:
        options, epochs, final = folder.options(), folder.epochs(), folder.result()
        last = epochs[-1] if epochs else {}
        measured = headline_of(final or last, "test")
        validated = [headline_of(record, "validation") for record in epochs]
        return {
            "name": folder.name,
            "state": folder.state(),
            "model": options.model,
            "data": options.data,
            "seed": options.seed,
            "epoch": last.get("epoch", 0),
            "epochs": options.epochs,
            "measure": None if measured is None else measured[0],
            "accuracy": None if measured is None else measured[1],
            "validation_accuracy": max((found[1] for found in validated if found is not None), default=-1.0),
            "parameters": None if final is None else final["parameters"],
            "seconds": sum(record.get("seconds", 0.0) for record in epochs),
            "started": folder.environment().get("started"),
        }
    except GeqError as problem:
        return {"name": folder.name, "state": "damaged", "problem": str(problem)}


def main(arguments: list[str]) -> int:
    asked = parse("runs", "List the runs in a folder, oldest first.", arguments, declare)

    from pathlib import Path

    from geq.training.run_folder import RunFolder, known_runs

    rows = [describe(RunFolder(Path(asked.runs) / name)) for name in known_runs(asked.runs)]
    if asked.json:
        print_json(rows)
    elif not rows:
        print(f"no runs in {asked.runs}/ yet: start one with 'geq train'")
    else:
        show(rows)
    return 0


def show(rows: list[dict[str, Any]]) -> None:
    from rich.text import Text

    table = new_table(
        *("run", "state", "model", "data", ">seed", ">epoch", ">validation", ">test", ">size", ">time"),
        "started",
        unbroken=("run",),
    )
    for row in rows:
        if row["state"] == "damaged":
            table.add_row(row["name"], Text(f"damaged: {row['problem']}", style=BAD))
            continue
        table.add_row(
            row["name"],
            row["state"],
            row["model"],
            row["data"],
            str(row["seed"]),
            f"{row['epoch']}/{row['epochs']}",
            percent(row["validation_accuracy"] if row["validation_accuracy"] >= 0 else None),
            percent(row["accuracy"]) + (" mIoU" if row["measure"] == "mIoU" else ""),
            "–" if row["parameters"] is None else f"{row['parameters']:,}",
            f"{row['seconds']:.0f} s",
            str(row["started"] or "–")[:16].replace("T", " "),
        )
    console_for().print(table)
