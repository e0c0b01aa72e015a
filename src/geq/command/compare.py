"""``geq compare RUN RUN…``: differences of runs, and their results."""

from __future__ import annotations

from typing import Any

from geq.command.argument_parser import add_json, parse
from geq.command.terminal import console_for, new_table, print_json
from geq.errors import OptionError
from geq.number_format import option_text

RESULTS = {
    "test_accuracy": "test accuracy (%)",
    "test_top5": "test accuracy, top 5 (%)",
    "test_miou": "test mIoU (%)",
    "test_macc": "test mAcc (%)",
    "test_aacc": "test aAcc (%)",
    "test_loss": "test loss",
    "test_steps": "solver steps",
    "test_unconverged": "not converged (share)",
    "parameters": "parameters",
    "epochs": "epochs",
    "seconds": "seconds",
    "cpu_seconds": "CPU-seconds",
}
LAST = {
    "train_loss": "last training loss",
    "train_accuracy": "last training accuracy (%)",
    "train_miou": "last training mIoU (%)",
    "beta_mean": "mean β",
}


def declare(parser: Any) -> None:
    parser.usage = "geq compare RUN RUN [RUN ...] [options]"
    parser.add_argument(
        "names", metavar="RUN", type=str, nargs="+", help="two or more runs: folders, or names below --runs"
    )
    parser.add_argument("--runs", type=str, default="runs", help="folder that holds the runs")
    add_json(parser)


def main(arguments: list[str]) -> int:
    asked = parse("compare", "Compare the options and results of runs.", arguments, declare)
    if len(asked.names) < 2:
        raise OptionError(f"compare needs two runs or more: got {len(asked.names)}; 'geq runs' lists them")

    from geq.training.run_folder import RunFolder

    folders = [RunFolder.find(name, asked.runs) for name in asked.names]
    table = {"options": differing_options(folders), "results": results(folders)}
    if asked.json:
        print_json({"runs": [str(folder.path) for folder in folders], **table})
    else:
        show([folder.name for folder in folders], table)
    return 0


def differing_options(folders: list[Any]) -> dict[str, list[Any]]:
    """The options that are not the same in all runs, apart from those that change nothing of a result."""
    from geq.training.train_options import PLACES

    values = [folder.options().as_mapping() for folder in folders]
    return {
        name: [value[name] for value in values]
        for name in values[0]
        if name not in PLACES and any(value[name] != values[0][name] for value in values)
    }


def results(folders: list[Any]) -> dict[str, list[float | None]]:
    """Return the results of each run; None where it has no such number (yet)."""
    finals = [folder.result() or {} for folder in folders]
    lasts = [(folder.epochs() or [{}])[-1] for folder in folders]
    rows = {label: [final.get(name) for final in finals] for name, label in RESULTS.items()}
    rows |= {label: [last.get(name) for last in lasts] for name, label in LAST.items()}
    return {label: row for label, row in rows.items() if any(value is not None for value in row)}


def show(names: list[str], table: dict[str, dict[str, list[Any]]]) -> None:
    printed = new_table("", *(f">{name}" for name in names))
    for part in ("options", "results"):
        for label, row in table[part].items():
            printed.add_row(label, *map(option_text, row))
        printed.add_section()
    console_for().print(printed)
