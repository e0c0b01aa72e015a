"""One table, and how it looks as HTML, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field

from geq.report.markup import Markup, element, identifier, join


@dataclass(frozen=True)
class Cell:
    """
    Args:
        text: as it is read.
        value: by what it is sorted, and what CSV holds; ``text`` where None.
        shown: as HTML, where that is more than ``text``.
        kind: a class for the style sheet.
    """

    text: str
    value: float | int | str | None = None
    shown: Markup | None = None
    kind: str | None = None


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
class Table:
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
    rows: tuple[tuple[Cell, ...], ...]
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

    def html(self) -> Markup:
        heads = [self._group_row()] if any(column.group for column in self.columns) else []
        heads.append(element("tr", [_heading(column) for column in self.columns]))
        body = [
            element("tr", [_data(*pair) for pair in zip(row, self.columns, strict=True)]) for row in self.rows
        ]
        table = element(
            "table",
            [
                element("caption", self.title),
                element("thead", heads),
                element("tbody", body),
            ],
            {"class": "sortable stacked" if self.stacked else "sortable", "id": f"table-{self.anchor}"},
        )
        region = {"class": "scroll", "role": "region", "aria-label": self.title, "tabindex": "0"}
        note = [element("p", self.note, {"class": "note"})] if self.note else []
        return join([element("div", table, region), *note])

    def _group_row(self) -> Markup:
        cells, start = [], 0
        while start < len(self.columns):
            group, stop = self.columns[start].group, start + 1
            while stop < len(self.columns) and group and self.columns[stop].group == group:
                stop += 1
            wide = {"colspan": stop - start if stop - start > 1 else None}
            cells.append(element("th", group, {"scope": "colgroup", **wide}) if group else element("td"))
            start = stop
        return element("tr", cells, {"class": "groups"})

    def markdown(self) -> str:
        """
        >>> columns = Column("a|b"), Column("n", numeric=True)
        >>> print(Table("T", columns, ((Cell("<x>"), Cell("1")),)).markdown())
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


def _heading(column: Column) -> Markup:
    kind = {"scope": "col", "class": "number" if column.numeric else None}
    if column.pictured:
        return element("th", column.label, kind)
    button = element("button", column.label, {"type": "button", "title": f"sort by {column.full_label}"})
    return element("th", button, {**kind, "aria-sort": "none"})


def _data(cell: Cell, column: Column) -> Markup:
    kinds = " ".join(filter(None, ["number" if column.numeric else None, cell.kind]))
    return element(
        "td",
        cell.shown if cell.shown is not None else cell.text,
        {
            "class": kinds or None,
            "data-label": column.label,
            "data-value": None if cell.value is None else _plain(cell.value),
        },
    )


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
