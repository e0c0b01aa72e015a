"""``geq models``: every registered model with its size, its cost and what its paper reports."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from geq.command.argument_parser import add_json, parse
from geq.command.terminal import console_for, new_table, print_json
from geq.errors import unknown_name
from geq.model.catalogue import ModelRow, catalogue
from geq.model.model_registry import list_models


def short(number: int) -> str:
    """A count to three digits.

    >>> short(25557032), short(171799), short(4_100_000_000), short(650)
    ('25.6M', '172k', '4.10G', '650')
    """
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            value = number / size
            return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}{letter}"
    return str(number)


def show_table(rows: list[ModelRow]) -> None:
    table = new_table(
        *("name", ">size", ">cost", ">input", "source", "reported"),
        unbroken=("name", "size", "cost", "input"),
        title=f"{len(rows)} models",
        caption="size: parameters; cost: multiply-adds of one evaluation, one image; reported: accuracy in %",
    )
    for row in rows:
        size = "×".join(map(str, row.input_shape))
        reported = row.reported or "–"
        table.add_row(row.name, short(row.parameters), short(row.multiply_adds), size, row.source, reported)
    console_for().print(table)


def declare(parser: Any) -> None:
    parser.usage = "geq models [PATTERN] [options]"
    parser.add_argument(
        "pattern",
        metavar="PATTERN",
        type=str,
        nargs="?",
        default="*",
        help="shell pattern of the names, such as 'geq_*'; without * or ?, a prefix of names",
    )
    add_json(parser)


def main(arguments: list[str]) -> int:
    options = parse("models", "List the registered models.", arguments, declare)
    names = list_models(options.pattern) or list_models(f"{options.pattern}*")
    if not names:
        raise unknown_name("model pattern", options.pattern, list_models())
    rows = [catalogue()[name] for name in names if name in catalogue()]
    if options.json:
        print_json([asdict(row) for row in rows])
    else:
        show_table(rows)
    return 0
