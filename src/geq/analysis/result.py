"""What an analysis hands back: numbers for programs, tables and sentences for people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from geq.errors import CheckpointError, one_line

Verdict = Literal["holds", "violated", "says nothing"]


@dataclass(frozen=True)
class Table:
    """A table of text, as it is shown."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Result:
    """
    Args:
        values: every number, by name; infinite and undefined ones become null in a file.
        tables: for people.
        notes: sentences to go with them.
    """

    values: Mapping[str, Any]
    tables: Sequence[Table] = ()
    notes: Sequence[str] = field(default=())

    def as_mapping(self) -> dict[str, Any]:
        return {
            "values": finite(self.values),
            "tables": [
                {"title": t.title, "columns": list(t.columns), "rows": [list(row) for row in t.rows]}
                for t in self.tables
            ],
            "notes": list(self.notes),
        }

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], where: str) -> Result:
        try:
            tables = tuple(
                Table(t["title"], tuple(t["columns"]), tuple(tuple(row) for row in t["rows"]))
                for t in values["tables"]
            )
            return cls(values["values"], tables, tuple(values["notes"]))
        except KeyError as problem:
            raise CheckpointError(f"{where} is not a result of geq analyze: {problem} is missing") from None
        except TypeError as problem:
            raise CheckpointError(f"{where} is not a result of geq analyze: {one_line(problem)}") from None


@dataclass(frozen=True)
class Bound:
    """A stated upper bound beside what was measured.

    Args:
        name: of the bound.
        value: what it states; infinite where it states nothing (a denominator that is not positive, an
            assumption that fails).
        measured: a lower bound of the quantity, found by trying.
        tolerance: how much of ``measured`` may be noise.

    >>> Bound("a", 1.0, 0.5).verdict, Bound("b", 0.2, 0.5).verdict, Bound("c", math.inf, 0.5).verdict
    ('holds', 'violated', 'says nothing')
    """

    name: str
    value: float
    measured: float
    tolerance: float = 0.0

    @property
    def verdict(self) -> Verdict:
        if not math.isfinite(self.value):
            return "says nothing"
        return "violated" if self.measured - self.tolerance > self.value else "holds"

    def as_mapping(self) -> dict[str, Any]:
        return {"value": self.value, "measured": self.measured, "verdict": self.verdict}


def finite(value: Any) -> Any:
    """The same, as JSON can hold it: numbers that are not finite become None.

    >>> finite({"a": [1.0, math.inf]})
    {'a': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def shown(value: float | None, digits: int = 3) -> str:
    """A number as a person reads it.

    >>> shown(0.95), shown(12345.678), shown(1.2e-7), shown(None), shown(math.inf)
    ('0.950', '1.23e+04', '1.20e-07', '–', '∞')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    size = abs(value)
    if value and (size >= 1e4 or size < 1e-3):
        return f"{value:.{digits - 1}e}"
    return f"{value:.{digits}f}" if size < 100 else f"{value:.1f}"
