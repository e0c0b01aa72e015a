"""One table, as Markdown and CSV; the page shows it by a macro of its template."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from itertools import groupby

from geq.safe_parsing import identifier
from geq_papers.report.chart import IntervalStrip


@dataclass(frozen=True)
class TableCell:
    """
    Args:
        text: As it is read in Markdown.
        value: By what it is sorted, and what CSV holds; ``text`` where None.
        head: As it is read on the page, where that is not ``text``.
        aside: Small words after the head.
        below: Small lines below it.
        link: Anchor that the head leads to.
        kind: Classes of the style sheet.
        strip: Drawing instead of words.
    """

    text: str
    value: float | int | str | None = None
    head: str | None = None
    aside: str = ""
    below: tuple[str, ...] = ()
    link: str = ""
    kind: str = ""
    strip: IntervalStrip | None = None

    @property
    def sorted_by(self) -> str | None:
        return None if self.value is None else _plain(self.value)


@dataclass(frozen=True)
class Column:
    """
    Args:
        label: its heading.
        group: a heading above it, shared with neighbours of the same group.
        numeric: aligned to the right.
        pictured: a drawing, which is neither sorted nor written to text.
    """

    label: str
    group: str = ""
    numeric: bool = False
    pictured: bool = False

    @property
    def full_label(self) -> str:
        return f"{self.group}: {self.label}" if self.group else self.label


@dataclass(frozen=True)
class ReportTable:
    """
    Args:
        title: its caption, and by ``identifier`` its anchor and the name of its files.
        name: a unique name where the title is not.
        note: a sentence below it.
        stacked: on a phone each row becomes a block of its own.
        csv_columns, csv_rows: what CSV holds, where that is more than what is read.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    name: str = ""
    note: str = ""
    stacked: bool = False
    csv_columns: tuple[str, ...] = field(default=())
    csv_rows: tuple[tuple[str | float | int | None, ...], ...] = field(default=())

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), f"ragged rows in {self.title}"

    @property
    def anchor(self) -> str:
        return identifier(self.name or self.title)

    def groups(self) -> list[tuple[str, int]]:
        """Headings above those of the columns, each with the number of its columns; empty without any."""
        if not any(column.group for column in self.columns):
            return []
        runs = ((group, len(list(same))) for group, same in groupby(column.group for column in self.columns))
        return [one for group, width in runs for one in ([(group, width)] if group else [("", 1)] * width)]

    def markdown(self) -> str:
        """
        >>> columns = Column("a|b"), Column("n", numeric=True)
        >>> print(ReportTable("T", columns, ((TableCell("<x>"), TableCell("1")),)).markdown())
        ### T
        <BLANKLINE>
        | a\\|b | n |
        | --- | ---: |
        | &lt;x&gt; | 1 |
        <BLANKLINE>
        """
        kept = [number for number, column in enumerate(self.columns) if not column.pictured]
        lines = [
            [_markdown(self.columns[number].full_label) for number in kept],
            ["---:" if self.columns[number].numeric else "---" for number in kept],
            *([_markdown(row[number].text) for number in kept] for row in self.rows),
        ]
        text = f"### {_markdown(self.title)}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)
        return text + (f"\n{_markdown(self.note)}\n" if self.note else "")

    def csv(self) -> str:
        """Comma-separated; numbers unrounded, with a point."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        if self.csv_columns:
            writer.writerow([_harmless(label) for label in self.csv_columns])
            writer.writerows([_plain(value) for value in row] for row in self.csv_rows)
        else:
            kept = [number for number, column in enumerate(self.columns) if not column.pictured]
            writer.writerow([_harmless(self.columns[number].full_label) for number in kept])
            for row in self.rows:
                cells = [row[number] for number in kept]
                writer.writerow([_plain(cell.text if cell.value is None else cell.value) for cell in cells])
        return file.getvalue()


def _markdown(text: str) -> str:
    """In one line, and with nothing that Markdown or HTML would act upon."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", text)


def _plain(value: float | int | str | None) -> str:
    if value is None:
        return ""
    return _harmless(value) if isinstance(value, str) else repr(value)


def _harmless(text: str) -> str:
    """Text that a spreadsheet does not take for a formula.

    >>> _harmless("=HYPERLINK(1)"), _harmless("geq")
    ("'=HYPERLINK(1)", 'geq')
    """
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
