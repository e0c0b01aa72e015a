"""Errors and gaps in the papers, and how they are handled here."""

from __future__ import annotations

import json
from importlib import resources

from geq_papers.report.section import Section
from geq_papers.report.table import Column, ReportTable, TableCell

COLUMNS = (Column("Where"), Column("Printed"), Column("Right"), Column("Here"))
KEYS = ("where", "printed", "right", "handled")


def errata() -> Section:
    entries = json.loads((resources.files("geq_papers.report") / "errata.json").read_text(encoding="utf-8"))
    rows = tuple(tuple(TableCell(entry[key], kind="words") for key in KEYS) for entry in entries)
    table = ReportTable("Errata and gaps", COLUMNS, rows)
    return Section("errata", "Errata", "errata", {"entries": table}, (table,))
