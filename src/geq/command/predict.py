"""``geq predict RUN IMAGE…``: what a trained network says about pictures, and how sure its equilibria are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from geq.command.argument_parser import add_inference, add_json, add_quiet, chosen_inference, parse
from geq.command.terminal import console_for, new_table, print_json
from geq.errors import DataError, OptionError
from geq.number_format import percent

SUMMARY = """Classify image files with the trained network of a run, or segment them.

A classifier takes the middle square of each file at the size of the training images. A segmenter takes the
whole file at the height of the training images, and writes NAME.mask.png (a palette image whose values are
the labels) and NAME.overlay.png (with a legend) into the same folder. The certificate says whether the
equilibria are proved to be unique, and how fast the iteration converges."""


def declare(parser: Any) -> None:
    parser.usage = "geq predict RUN IMAGE [IMAGE ...] [options]"
    parser.add_argument(
        "run", type=str, help="folder of a run, its name below --runs, or a name of 'geq weights'"
    )
    parser.add_argument("images", type=str, nargs="+", help="image files, and folders of them")
    parser.add_argument("--runs", type=str, default="runs", help="folder that holds the runs")
    parser.add_argument(
        "--output", type=str | None, default=None, help="folder for masks; the default is beside each image"
    )
    add_inference(parser)
    add_json(parser)
    add_quiet(parser)


def main(arguments: list[str]) -> int:
    asked = parse("predict", SUMMARY, arguments, declare)

    from geq.training.run_folder import RunFolder

    folder = RunFolder.find(asked.run, asked.runs)
    named = [Path(name) for name in asked.images]
    for path in named:  # before torch is loaded
        if not path.exists():
            raise DataError(f"there is no file {path}")

    from geq.frozen import freeze
    from geq.model.network import Network
    from geq.training.prediction import Prediction, Predictor

    data = folder.data()
    model = freeze(Network.from_pretrained(folder.model))
    if model.restores:
        raise OptionError(
            f"geq predict is for networks that classify images or label pixels; {folder.title} restores "
            "images: call the network itself, geq.model.network.Network.from_pretrained"
        )
    paths = [image for path in named for image in images_at(path)]
    predictions: list[Any]
    errors: list[str] = []
    if model.labels_pixels:
        from geq.training.segmentation_prediction import predict_scenes
        from geq.training.sliding_window import Inference

        inference = Inference.of(chosen_inference(folder.options(), asked))
        output = None if asked.output is None else Path(asked.output)
        predictions = [*predict_scenes(model, paths, data, inference, output)]
        show = show_scenes
    else:
        if asked.output is not None or asked.inference is not None:
            raise OptionError("--output and --inference are for segmenters; this network classifies images")
        found = list(Predictor(model, data).predict_readable(paths))
        predictions = [item for item in found if isinstance(item, Prediction)]
        errors = [str(item) for item in found if not isinstance(item, Prediction)]
        show = show_labels
    proved = model.well_posedness()
    if asked.json:
        rows = [
            {name: str(value) if isinstance(value, Path) else value for name, value in asdict(p).items()}
            for p in predictions
        ]
        certificates = {name: str(certificate) for name, certificate in proved.items()}
        print_json({"predictions": rows, "errors": errors, "certificates": certificates})
    elif not asked.quiet:
        if predictions:
            show(predictions)
        console = console_for()
        for line in [*(f"error  {error}" for error in errors), *in_words(model, proved)]:
            console.print(line, highlight=False, soft_wrap=True, markup=False)
    return 1 if errors else 0


def images_at(path: Path) -> list[Path]:
    """Return a file as it is, and of a folder the images in it."""
    from geq.data.image_reader import SUFFIXES, image_files

    found = image_files(path, "**/*") if path.is_dir() else [path]
    if not found:
        raise DataError(f"the folder {path} has no images ({', '.join(SUFFIXES)})")
    return found


def in_words(model: Any, proved: dict[str, Any]) -> list[str]:
    """Say what is proved about the equilibria; nothing for a network without."""
    from geq.certificates.in_words import existence, proved_unique, speed

    if not proved:
        return []
    rates = [layer.cell.contraction_rate(proved[name]) for name, layer in model.equilibria().items()]
    mark = "Proved." if proved_unique(proved.values()) else "Not proved."
    return [f"{mark} {existence(proved.values())} {speed(rates)}"]


def solver_cells(p: Any) -> tuple[str, str, str]:
    if p.steps is None:
        return ("–", "–", "–")
    return (str(p.steps), f"{p.residual:.1e}", "yes" if p.converged else "no")


def show_labels(predictions: list[Any]) -> None:
    table = new_table("image", "class", ">confidence", "next", ">steps", ">residual", ">converged")
    for p in predictions:
        others = [f"{name} {percent(100 * share, 1)}" for name, share in p.top(2)[1:]]
        confidence = percent(100 * p.confidence, 1)
        table.add_row(str(p.path), p.label, confidence, *(others or ["–"]), *solver_cells(p))
    console_for().print(table)


def show_scenes(predictions: list[Any]) -> None:
    console = console_for()
    table = new_table("image", "classes", ">steps", ">residual", ">converged")
    for p in predictions:
        classes = ", ".join(f"{name} {percent(100 * share, 1)}" for name, share in p.shares.items())
        table.add_row(str(p.path), classes, *solver_cells(p))
    console.print(table)
    for p in predictions:
        console.print(f"mask     {p.mask}", highlight=False, soft_wrap=True)
        console.print(f"overlay  {p.overlay}", highlight=False, soft_wrap=True)
