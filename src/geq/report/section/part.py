"""What a section is: markup for the page, and the tables in it for files."""

from __future__ import annotations

from dataclasses import dataclass

from geq.report.markup import Markup
from geq.report.table import Table


@dataclass(frozen=True)
class Section:
    """
    Args:
        anchor: its id on the page.
        title: its heading, and its entry in the contents.
        body: below the heading.
        tables: all tables in ``body``.
        entries: what the contents list below it: anchor -> words.
    """

    anchor: str
    title: str
    body: Markup
    tables: tuple[Table, ...] = ()
    entries: tuple[tuple[str, str], ...] = ()
