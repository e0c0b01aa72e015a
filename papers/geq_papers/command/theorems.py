"""``geq theorems``: the statements of the OptEq paper, checked on random layers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from geq.command.argument_parser import add_json, parse
from geq.command.terminal import BAD, GOOD, console_for, new_table, print_json
from geq.errors import OptionError, unknown_name

NAMES = (
    *("theorem-1", "table-1-skip", "table-1-affine", "table-1-matrix", "theorem-4", "theorem-5"),
    *("lemma-1", "lemma-2", "lemma-3", "theorem-2", "corollary-1", "theorem-3"),
)
"""Names of :data:`~geq_papers.theorem.theorem_list.THEOREMS`, which loads torch; a test compares them."""


def declare(parser: Any) -> None:
    parser.add_argument(
        "--only", type=str | None, default=None, help="names of theorems, separated by commas"
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of random instances of each statement")
    add_json(parser)


def main(arguments: list[str]) -> int:
    asked = parse("theorems", "Check the theorems of OptEq on random layers.", arguments, declare)
    if asked.seeds < 1:
        raise OptionError(f"--seeds must be at least 1: got {asked.seeds}")
    names = NAMES if asked.only is None else [name.strip() for name in asked.only.split(",")]
    for name in names:
        if name not in NAMES:
            raise unknown_name("theorem", name, NAMES)

    from geq_papers.theorem.theorem_list import THEOREMS

    rows = []
    for name in progress(names, quiet=asked.json):
        checks = [THEOREMS[name].check(seed) for seed in range(asked.seeds)]
        rows.append(
            {
                "name": name,
                "claim": THEOREMS[name].claim,
                "instances": len(checks),
                "largest_error": max(check.largest_error for check in checks),
                "holds": all(check.holds for check in checks),
                "failures": [check.verdict for check in checks if not check.holds],
            }
        )
    if asked.json:
        print_json(rows)
    else:
        show(rows)
    return 0 if all(row["holds"] for row in rows) else 1


def progress(names: Iterable[str], quiet: bool) -> Iterable[str]:
    from rich.progress import track

    return track(names, description="checking", transient=True, disable=quiet)


def show(rows: list[dict[str, Any]]) -> None:
    table = new_table(
        *("statement", "claim", ">instances", ">largest error", "verdict"),
        unbroken=("statement",),
        title="the theorems of OptEq on random layers",
    )
    for row in rows:
        verdict = f"[{GOOD}]holds[/]" if row["holds"] else f"[{BAD}]fails[/]"
        table.add_row(
            row["name"], row["claim"], str(row["instances"]), f"{row['largest_error']:.1e}", verdict
        )
    console = console_for()
    console.print(table)
    for row in rows:
        for failure in row["failures"]:
            console.print(f"{row['name']}: {failure}", markup=False)


WORDS = {"only": NAMES}
"""Option -> the words for it, for the completion of shells."""
