"""What the papers print wrongly or leave open, and what is done about it here."""

from __future__ import annotations

import json
from importlib import resources

from geq.report.markup import element, join
from geq.report.section.part import Section
from geq.report.table import Cell, Column, Table

COLUMNS = (Column("Where"), Column("Printed"), Column("Right"), Column("Here"))
KEYS = ("where", "printed", "right", "handled")


def errata() -> Section:
    entries = json.loads((resources.files("geq.report") / "errata.json").read_text(encoding="utf-8"))
    rows = tuple(tuple(Cell(entry[key], kind="words") for key in KEYS) for entry in entries)
    table = Table("Errata and gaps", COLUMNS, rows)
    words = element(
        "p",
        [
            "Found while the statements were turned into code and tests; ",
            element("code", "docs/errata.md"),
            " has derivations and counter-examples.",
        ],
    )
    return Section("errata", "Errata", join([words, table.html()]), (table,))
