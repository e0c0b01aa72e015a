"""``geq tune``: search γ rule, patch, split and learning rate with Optuna."""

from __future__ import annotations

import logging
import sys
from dataclasses import fields
from typing import Any

from geq.command.argument_parser import add_json, add_quiet
from geq.command.terminal import console_for, new_table, print_json
from geq.command.training_arguments import (
    DEFAULT_MODEL,
    add_folder,
    as_yaml,
    declare_training,
    parse_training,
)
from geq.number_format import option_text, percent

SUMMARY = """Search the γ rule, the patch, the split and the learning rate of a network.

Each trial is a run below runs/STUDY, ranked by its accuracy on validation images. After Ctrl-C the same
command resumes the search."""


DEFAULTS = {"validation": 0.2, "epochs": 5}


def declare(parser: Any, model: str = DEFAULT_MODEL) -> None:
    from geq.training.hyperparameter_search import SearchOptions

    parser.usage = "geq tune [FOLDER] [options]"
    add_folder(parser)
    parser.add_class_arguments(SearchOptions)
    add_json(parser)
    add_quiet(parser)
    declare_training(parser, model)


def main(arguments: list[str]) -> int:
    parsed, options = parse_training("tune", SUMMARY, arguments, declare, DEFAULTS)
    if parsed.print_config:
        print(as_yaml(options), end="")
        return 0

    from geq.training.hyperparameter_search import UNFIT, Search, SearchOptions
    from geq.training.interrupt import TrainingInterrupted

    logging.basicConfig(level=logging.WARNING, format="geq: %(message)s", stream=sys.stderr)
    console = console_for(parsed.json, parsed.quiet)
    search = Search(
        SearchOptions(**{item.name: parsed[item.name] for item in fields(SearchOptions)}), options
    )

    def report(trial: Any) -> None:
        tried = "  ".join(f"{name} {option_text(value)}" for name, value in trial.params.items())
        result = (
            percent(trial.value) if trial.value is not None else trial.user_attrs.get(UNFIT, trial.state.name)
        )
        console.print(f"trial {trial.number:3d}  {tried}  →  {result}", highlight=False, soft_wrap=True)

    try:
        study = search.continue_until_done(report)
    except TrainingInterrupted:
        console.print("stopped; the same command resumes from here", highlight=False)
        return 130
    if parsed.json:
        print_json([described(trial) for trial in study.trials])
    else:
        show(study, search, console)
    return 0


def described(trial: Any) -> dict[str, Any]:
    """A trial for programs, with the accuracy (or mIoU) in %, or the reason why it could not be trained."""
    from geq.training.hyperparameter_search import UNFIT

    return {
        "trial": trial.number,
        "state": trial.state.name.lower(),
        "validation": trial.value,
        "reason": trial.user_attrs.get(UNFIT),
        "options": dict(trial.params),
    }


def show(study: Any, search: Any, console: Any) -> None:
    """The best trials, and how to train with the best of them."""
    from geq.weights.training_command import plain_command

    ranked = sorted(
        (trial for trial in study.trials if trial.value is not None), key=lambda trial: -float(trial.value)
    )
    if not ranked:
        console.print("no trial could be trained: see the reasons above", highlight=False)
        return
    names = list(ranked[0].params)
    table = new_table(">trial", ">validation", *(f">{name}" for name in names))
    for trial in ranked[:10]:
        table.add_row(
            str(trial.number), percent(trial.value), *(option_text(trial.params.get(name)) for name in names)
        )
    console.print(table)
    best = plain_command(search.with_choices(ranked[0].params))
    console.print(f"train the best: {best}", highlight=False, soft_wrap=True)
