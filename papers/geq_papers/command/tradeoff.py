"""``geq tradeoff``: unrolled iterations against the implicit gradient, in accuracy, time and residual."""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from geq.command.argument_parser import add_json, add_quiet
from geq.command.terminal import console_for, new_table, print_json
from geq.command.training_arguments import as_yaml, declare_training, parse_training
from geq_papers.tradeoff_setting import TradeoffOptions, TradeoffSetting

if TYPE_CHECKING:
    from geq_papers.tradeoff import TradeoffRow

SUMMARY = """Train one network through unrolled iterations and by the implicit function theorem, and compare.

The rows of OptEq's table 8 at small scale: K = 5, 10, 20, 40 iterations, and two thresholds of the residual.
Each row is a run below runs/STUDY; the options of geq train apply to all of them. After Ctrl-C the same
command resumes; finished rows are not repeated."""


DEFAULT_MODEL = "deep_opteq_tiny"
DEFAULTS = {"model": DEFAULT_MODEL, "epochs": 5, "picture": False}


def declare(parser: Any, model: str = DEFAULT_MODEL) -> None:
    parser.usage = "geq tradeoff [options]"
    parser.add_class_arguments(TradeoffOptions)
    add_json(parser)
    add_quiet(parser)
    declare_training(parser, model)


def main(arguments: list[str]) -> int:
    parsed, options = parse_training("tradeoff", SUMMARY, arguments, declare, DEFAULTS)
    if parsed.print_config:
        print(as_yaml(options), end="")
        return 0

    from geq.training.interrupt import TrainingInterrupted
    from geq_papers.tradeoff import Tradeoff, draw_tradeoff

    logging.basicConfig(level=logging.WARNING, format="geq: %(message)s", stream=sys.stderr)
    console = console_for(parsed.json, parsed.quiet)
    chosen = TradeoffOptions(**{item.name: parsed[item.name] for item in fields(TradeoffOptions)})
    study = Tradeoff(chosen, options)

    def report(setting: TradeoffSetting) -> None:
        console.print(setting.label, style="bold", highlight=False)

    try:
        rows = study.continue_until_done(report, console)
    except TrainingInterrupted:
        console.print("stopped; the same command resumes from here", highlight=False)
        return 130
    title = f"{study.base.model} on {study.base.data}"
    draw_tradeoff(rows, study.picture, title)
    if parsed.json:
        print_json([asdict(row) for row in rows])
        return 0
    show(rows, title, console)
    console.print(f"record   {study.record}", highlight=False, soft_wrap=True)
    console.print(f"picture  {study.picture}", highlight=False, soft_wrap=True)
    return 0


def show(rows: list[TradeoffRow], title: str, console: Any) -> None:
    caption = "times are for one image, in batches as in training"
    figures = ("accuracy\n%", "inference\nms", "backward\nms", "residual\n", "steps\n", "time\ns")
    table = new_table(
        "training",
        *(f">{name}" for name in figures),
        unbroken=("training", *figures),
        title=title,
        caption=caption,
        padding=(0, 1),
        collapse_padding=True,
    )
    for row in rows:
        table.add_row(
            row.label,
            f"{row.accuracy:.2f}",
            f"{row.inference:.3f}",
            f"{row.back_propagation:.3f}",
            f"{row.residual:.1e}",
            f"{row.evaluations:.1f}",
            f"{row.training:.0f}",
        )
    console.print(table)
