"""Sections of the page, one file each, and their common class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from geq_papers.report.table import ReportTable


@dataclass(frozen=True)
class Section:
    """
    Args:
        anchor: Id on the page.
        title: Heading, and entry in the contents.
        block: Macro of ``section.html.j2`` that shows it.
        content: Arguments of that macro.
        tables: All tables in it.
        entries: What the contents list below it: anchor, words.
    """

    anchor: str
    title: str
    block: str
    content: Mapping[str, Any]
    tables: tuple[ReportTable, ...] = ()
    entries: tuple[tuple[str, str], ...] = field(default=())
