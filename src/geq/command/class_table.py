"""Tables of ``geq evaluate``: accuracy of each class and the confusion matrix."""

from __future__ import annotations

from typing import Any

from geq.command.terminal import new_table
from geq.number_format import percent

MATRIX = 12
"""Most classes of which the whole matrix is printed; of more, the mistakes that are made most often."""
WORST, MISTAKES = 10, 10
"""Classes and mistakes that are printed then."""
LETTERS = 9
"""Of a class above its column."""


def class_accuracy(confusion: list[list[int]], classes: tuple[str, ...]) -> dict[str, float | None]:
    """Return the share of each class that was found, in %; None for a class that is not there.

    >>> class_accuracy([[3, 1], [0, 0]], ("cat", "dog"))
    {'cat': 75.0, 'dog': None}
    """
    rows = zip(classes, confusion, strict=False)
    return {name: 100 * row[i] / sum(row) if sum(row) else None for i, (name, row) in enumerate(rows)}


def mistakes(confusion: list[list[int]], classes: tuple[str, ...]) -> list[tuple[str, str, int, float]]:
    """Return truth, what was said, number, and the share of that class in %; the most frequent first.

    >>> mistakes([[3, 1, 0], [0, 2, 0], [2, 0, 6]], ("cat", "dog", "fox"))
    [('fox', 'cat', 2, 25.0), ('cat', 'dog', 1, 25.0)]
    """
    found = [
        (
            truth,
            classes[column] if column < len(classes) else f"class {column}",
            number,
            100 * number / sum(row),
        )
        for index, (truth, row) in enumerate(zip(classes, confusion, strict=False))
        for column, number in enumerate(row)
        if number and column != index
    ]
    return sorted(found, key=lambda mistake: -mistake[2])


def class_tables(confusion: list[list[int]], classes: tuple[str, ...]) -> list[Any]:
    """Return headings and tables for a terminal; the title of a table would be broken at its width."""
    shares = class_accuracy(confusion, classes)
    table = new_table("class", ">images", ">right")
    if len(confusion[0]) > MATRIX:
        known = {name: share for name, share in shares.items() if share is not None}
        sizes = {name: sum(row) for name, row in zip(classes, confusion, strict=False)}
        for name in sorted(known, key=lambda name: known[name])[:WORST]:
            table.add_row(name, f"{sizes[name]:,}", percent(known[name]))
        worst = f"The {min(WORST, len(known))} classes that are right least often:"
        return [worst, table, "The most frequent mistakes:", mistake_table(confusion, classes)]
    for name in [*classes, *(f"class {n}" for n in range(len(classes), len(confusion[0])))]:
        table.add_column(name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…", justify="right")
    for index, (name, row) in enumerate(zip(classes, confusion, strict=False)):
        cells = [f"{number:,}" if number else "·" for number in row]
        cells[index] = f"[bold]{cells[index]}[/]"
        table.add_row(name, f"{sum(row):,}", percent(shares[name]), *cells)
    return ["Images of each class, how many are right, and what the network takes them for:", table]


def mistake_table(confusion: list[list[int]], classes: tuple[str, ...]) -> Any:
    table = new_table("is", "taken for", ">images", ">of its class")
    for truth, said, number, share in mistakes(confusion, classes)[:MISTAKES]:
        table.add_row(truth, said, f"{number:,}", percent(share))
    return table
