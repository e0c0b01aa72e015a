"""``geq train``: train a network, or go on with an interrupted run."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geq.command.evaluate import MEASURES
from geq.command.option import add_json, add_quiet, parse
from geq.command.terminal import console_for, print_json
from geq.data.catalogue import check_dataset_name
from geq.errors import OptionError
from geq.model.registry import check_model_name
from geq.training.image_folder import MODEL, fitting_batch, is_folder, with_images
from geq.training.option import GROUPS, TrainOptions
from geq.training.preset import list_presets, preset_path

if TYPE_CHECKING:
    from geq.training.fit import Outcome

SUMMARY = """Train a network. Without options: a small GEQ on scikit-learn's digits, about a minute.

Your own images: 'geq train photos/', with photos/cat/1.jpg, photos/dog/1.jpg and so on.

The options can stand in a YAML file (--config), named settings come with the package (--preset), and what is
given after either replaces it. The run is a folder below runs/ with the model, a log, a picture and all that
is needed to resume it."""

REPEATED = ("--override", "--data_override")


def declare(parser: Any) -> None:
    from jsonargparse import ActionConfigFile

    parser.usage = "geq train [FOLDER] [options]"
    add_folder(parser)
    parser.add_argument(
        "--config",
        "--preset",
        action=ActionConfigFile,
        help=f"a YAML file of options; or --preset with one of: {', '.join(list_presets())}",
    )
    parser.add_argument(
        "--resume",
        type=str | None,
        default=None,
        metavar="RUN",
        help="go on with an interrupted run: a folder, or its name below runs/; its options stay as they are",
    )
    add_json(parser)
    add_quiet(parser)
    for group in GROUPS:
        parser.add_class_arguments(group, fail_untyped=True)


def add_folder(parser: Any) -> None:
    """A folder of images in the place of a dataset."""
    parser.add_argument(
        "folder",
        type=str | None,
        nargs="?",
        default=None,
        help="a folder with a folder of images for each class, instead of --data; without train/ and val/ in "
        f"it a fifth of each class is held out for testing, and without --model the network is {MODEL}",
    )


def normalised(arguments: list[str]) -> list[str]:
    """What people type, in the form that the parser reads.

    Dashes in names are underscores, a preset is a file, and a repeated --override is one list.

    >>> normalised(["--num-nodes", "2", "--override", "patch=4", "--override=bound=0.8"])
    ['--num_nodes', '2', '--override=["patch=4", "bound=0.8"]']
    """
    result: list[str] = []
    collected: dict[str, list[str]] = {}
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("--"):
            result.append(argument)
            continue
        flag, has_value, value = argument.partition("=")
        flag = "--" + flag[2:].replace("-", "_")
        if flag == "--preset" or flag in REPEATED:
            value = value if has_value else next(rest, "")
            if flag == "--preset":
                result += ["--config", str(preset_path(value))]
            else:
                collected.setdefault(flag, []).append(value)
        else:
            result.append(flag + has_value + value)
    return result + [f"{flag}={json.dumps(values)}" for flag, values in collected.items()]


def options_from(parsed: Any, arguments: Sequence[str] = ()) -> TrainOptions:
    """The options that were parsed; misspelt models and datasets are refused before torch is loaded.

    A folder of images has its own model and batch size, unless the ``arguments`` name them.
    """
    values: dict[str, Any] = {item.name: getattr(parsed, item.name) for item in fields(TrainOptions)}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    options = TrainOptions.from_mapping(plain)
    folder = getattr(parsed, "folder", None) or (options.data if is_folder(options.data) else None)
    if folder is not None:
        options = with_images(options, folder)
        named = {argument.partition("=")[0] for argument in arguments}
        if not named & {"--model", "--config"}:
            options = replace(options, model=MODEL)
        if not named & {"--batch_size", "--config"}:
            options = replace(options, batch_size=fitting_batch(folder))
    check_model_name(options.model)
    check_dataset_name(options.data)
    return options


def main(arguments: list[str]) -> int:
    arguments = normalised(arguments)
    parsed = parse("train", SUMMARY, arguments, declare)
    if parsed.resume is not None and [
        a
        for a in arguments
        if a != parsed.resume and not a.startswith("--resume") and a not in ("--json", "--quiet")
    ]:
        raise OptionError("--resume takes the options of the run: give it alone, or start a new run")
    options = options_from(parsed, arguments)

    from geq.training.fit import resume, train
    from geq.training.interrupt import TrainingInterrupted
    from geq.training.run import RunFolder

    logging.basicConfig(level=logging.WARNING, format="geq: %(message)s", stream=sys.stderr)
    console = console_for(parsed.json, parsed.quiet)
    shown = None if parsed.quiet else console
    try:
        if parsed.resume is not None:
            outcome = resume(RunFolder.find(parsed.resume), shown)
        else:
            outcome = train(options, shown)
    except TrainingInterrupted as stop:
        console.print(str(stop), highlight=False, soft_wrap=True)
        return 130
    if outcome is None:
        return 0
    if parsed.json:
        print_json({"run": str(outcome.folder.path), **outcome.final})
    else:
        show_outcome(outcome, console)
    return 0


def show_outcome(outcome: Outcome, console: Any) -> None:
    """The table at the end, and what to do next."""
    from rich import box
    from rich.table import Table

    final, options = outcome.final, outcome.folder.options()
    table = Table(box=box.SIMPLE_HEAD, show_header=False, title=f"{options.model} on {options.data}")
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, label in MEASURES.items():
        if f"test_{name}" in final:
            table.add_row(f"test {label}", f"{final[f'test_{name}']:.2f} %")
    table.add_row("test loss", f"{final['test_loss']:.4f}")
    if "test_steps" in final:
        table.add_row("solver steps", f"{final['test_steps']:.1f}")
        table.add_row("not converged", f"{100 * final['test_unconverged']:.2f} %")
    table.add_row("parameters", f"{final['parameters']:,}")
    table.add_row("epochs", str(final["epochs"]))
    table.add_row("time", f"{final['seconds']:.0f} s ({final['cpu_seconds']:.0f} s of CPU)")
    console.print(table)
    path = outcome.folder.path
    console.print(f"run      {path}", highlight=False, soft_wrap=True)
    if Path(outcome.folder.picture).exists():
        console.print(f"picture  {outcome.folder.picture}", highlight=False, soft_wrap=True)
    console.print(
        f"next     geq evaluate {path}   geq predict {path} IMAGE   geq runs", highlight=False, soft_wrap=True
    )
