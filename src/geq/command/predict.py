"""``geq predict RUN IMAGE…``: what a trained network says about pictures, and how sure its equilibria are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from geq.command.option import add_inference, add_json, add_quiet, chosen_inference, parse
from geq.command.terminal import console_for, print_json
from geq.errors import OptionError

SUMMARY = """Classify image files with the trained network of a run, or label their pixels.

A classifier sees the middle square of each file at the size of the training images. A network that labels
pixels sees the whole file at the height of the training images, and writes NAME.mask.png (a palette image:
its values are the labels) and NAME.overlay.png (with a legend) beside it. The certificate says what is proved
about the equilibria: that there is exactly one, and how fast the iteration finds it."""


def declare(parser: Any) -> None:
    parser.usage = "geq predict RUN IMAGE [IMAGE ...] [options]"
    parser.add_argument(
        "run", type=str, help="folder of a run, its name below --runs, or a name of 'geq weights'"
    )
    parser.add_argument("images", type=str, nargs="+", help="image files")
    parser.add_argument("--runs", type=str, default="runs", help="folder that holds the runs")
    parser.add_argument(
        "--output", type=str | None, default=None, help="folder for masks; the default is beside each image"
    )
    add_inference(parser)
    add_json(parser)
    add_quiet(parser)


def main(arguments: list[str]) -> int:
    asked = parse("predict", SUMMARY, arguments, declare)

    from geq.training.run import RunFolder

    folder = RunFolder.find(asked.run, asked.runs)

    from geq.model.network import Network

    data = folder.data()
    model = Network.from_pretrained(folder.model)
    paths = [Path(name) for name in asked.images]
    predictions: list[Any]
    if model.labels_pixels:
        from geq.training.inference import Inference
        from geq.training.scene_prediction import predict_scenes

        inference = Inference.of(chosen_inference(folder.options(), asked))
        output = None if asked.output is None else Path(asked.output)
        predictions = [*predict_scenes(model, paths, data, inference, output)]
        show = show_scenes
    else:
        from geq.training.prediction import predict

        if asked.output is not None or asked.inference is not None:
            raise OptionError(
                "--output and --inference are for networks that label pixels; this one classifies"
            )
        predictions = [*predict(model, paths, data)]
        show = show_labels
    certificates = certify(model)
    if asked.json:
        rows = [
            {name: str(value) if isinstance(value, Path) else value for name, value in asdict(p).items()}
            for p in predictions
        ]
        print_json({"predictions": rows, "certificates": certificates})
    elif not asked.quiet:
        show(predictions)
        show_certificates(certificates)
    return 0


def certify(model: Any) -> dict[str, str]:
    """What is proved about each equilibrium; nothing for cells without a hidden problem."""
    return {name: str(found) for name, found in model.well_posedness().items()}


def solver_cells(p: Any) -> tuple[str, str, str]:
    if p.steps is None:
        return ("–", "–", "–")
    return (str(p.steps), f"{p.residual:.1e}", "yes" if p.converged else "no")


def show_labels(predictions: list[Any]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for title in ("image", "class", "confidence", "next", "steps", "residual", "converged"):
        table.add_column(title, justify="left" if title in ("image", "class", "next") else "right")
    for p in predictions:
        second = f"{p.second} {100 * p.second_confidence:.1f} %" if p.second is not None else "–"
        table.add_row(str(p.path), p.label, f"{100 * p.confidence:.1f} %", second, *solver_cells(p))
    console_for().print(table)


def show_scenes(predictions: list[Any]) -> None:
    from rich import box
    from rich.table import Table

    console = console_for()
    table = Table(box=box.SIMPLE_HEAD)
    for title in ("image", "classes", "steps", "residual", "converged"):
        table.add_column(title, justify="left" if title in ("image", "classes") else "right")
    for p in predictions:
        classes = ", ".join(f"{name} {100 * share:.1f} %" for name, share in p.shares.items())
        table.add_row(str(p.path), classes, *solver_cells(p))
    console.print(table)
    for p in predictions:
        console.print(f"mask     {p.mask}", highlight=False, soft_wrap=True)
        console.print(f"overlay  {p.overlay}", highlight=False, soft_wrap=True)


def show_certificates(certificates: dict[str, str]) -> None:

    console = console_for()
    for name, certificate in certificates.items():
        console.print(f"{name}: {certificate}", highlight=False, soft_wrap=True)
