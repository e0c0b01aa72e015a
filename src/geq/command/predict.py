"""``geq predict RUN IMAGE…``: what a trained network says about pictures, and how sure its equilibria are."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from geq.command.option import parse
from geq.error import OptionError

SUMMARY = """Classify image files with the trained network of a run.

Each file is cut to its middle square and brought to the size of the training images. The certificate says
what is proved about the equilibria: that there is exactly one, and how fast the iteration finds it."""


def declare(parser: Any) -> None:
    parser.usage = "geq predict RUN IMAGE [IMAGE ...] [options]"
    parser.add_argument("run", type=str, help="folder of a run, or its name below --runs")
    parser.add_argument("images", type=str, nargs="+", help="image files")
    parser.add_argument("--runs", type=str, default="runs", help="folder that holds the runs")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def main(arguments: list[str]) -> int:
    asked = parse("predict", SUMMARY, arguments, declare)

    from geq.model.network import Network
    from geq.training.prediction import predict
    from geq.training.run import RunFolder

    folder = RunFolder.find(asked.run, asked.runs)
    data = folder.data()
    model = Network.from_pretrained(folder.model)
    predictions = predict(model, [Path(name) for name in asked.images], data)
    certificates = certify(model)
    if asked.json:
        rows = [{**asdict(p), "path": str(p.path)} for p in predictions]
        print(json.dumps({"predictions": rows, "certificates": certificates}, indent=2, ensure_ascii=False))
    else:
        show(predictions, certificates)
    return 0


def certify(model: Any) -> dict[str, str]:
    """What is proved about each equilibrium; nothing for cells without a hidden problem."""
    result = {}
    for name, layer in model.equilibria().items():
        try:
            result[name] = str(layer.well_posedness())
        except OptionError as problem:
            result[name] = f"no certificate: {problem}"
    return result


def show(predictions: list[Any], certificates: dict[str, str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=box.SIMPLE_HEAD)
    for title in ("image", "class", "confidence", "next", "steps", "residual", "converged"):
        table.add_column(title, justify="left" if title in ("image", "class", "next") else "right")
    for p in predictions:
        second = f"{p.second} {100 * p.second_confidence:.1f} %" if p.second is not None else "–"
        solver = ("–", "–", "–")
        if p.steps is not None:
            solver = (str(p.steps), f"{p.residual:.1e}", "yes" if p.converged else "no")
        table.add_row(str(p.path), p.label, f"{100 * p.confidence:.1f} %", second, *solver)
    console.print(table)
    for name, certificate in certificates.items():
        console.print(f"{name}: {certificate}", highlight=False, soft_wrap=True)
