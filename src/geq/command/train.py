"""``geq train``: train a network, or resume an interrupted run."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geq.command.argument_parser import add_json, add_quiet
from geq.command.evaluate import MEASURES
from geq.command.terminal import console_for, new_table, print_json
from geq.command.training_arguments import (
    DEFAULT_MODEL,
    add_folder,
    as_yaml,
    declare_training,
    parse_training,
)
from geq.errors import OptionError
from geq.number_format import percent

if TYPE_CHECKING:
    from geq.training.fit import TrainingOutcome

SUMMARY = """Train a network. Without options: a small GEQ on scikit-learn's digits, about a minute.

Your own images: 'geq train photos/', with photos/cat/1.jpg, photos/dog/1.jpg and so on.

Options may come from a YAML file (--config) or a preset of the package (--preset); options on the command
line override both. The run is a folder below runs/ with the model, a log, a picture and all that is needed
to resume it."""


def declare(parser: Any, model: str = DEFAULT_MODEL) -> None:
    parser.usage = "geq train [FOLDER] [options]"
    add_folder(parser)
    parser.add_argument(
        "--resume",
        type=str | None,
        default=None,
        metavar="RUN",
        help="resume an interrupted run: a folder, or its name below runs/; its options are kept",
    )
    add_json(parser)
    add_quiet(parser)
    declare_training(parser, model)


def main(arguments: list[str]) -> int:
    parsed, options = parse_training("train", SUMMARY, arguments, declare, {})
    if parsed.resume is not None and parsed.given - {"resume", "json", "quiet"}:
        raise OptionError("--resume takes the options of the run: give it alone, or start a new run")
    if parsed.print_config:
        print(as_yaml(options), end="")
        return 0

    from geq.training.fit import resume, train
    from geq.training.interrupt import TrainingInterrupted
    from geq.training.run_folder import RunFolder

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


def show_outcome(outcome: TrainingOutcome, console: Any) -> None:
    """The table at the end, and what to do next."""
    final, options = outcome.final, outcome.folder.options()
    title = f"{options.model} on {options.data}"
    table = new_table("measure", ">value", show_header=False, title=title)
    table.columns[0].style = "bold"
    for name, label in MEASURES.items():
        if f"test_{name}" in final:
            table.add_row(f"test {label}", percent(final[f"test_{name}"]))
    table.add_row("test loss", f"{final['test_loss']:.4f}")
    if "test_steps" in final:
        table.add_row("solver steps", f"{final['test_steps']:.1f}")
        table.add_row("not converged", percent(100 * final["test_unconverged"]))
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
