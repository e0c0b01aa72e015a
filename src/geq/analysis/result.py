"""Result of an analysis: numbers for programs, tables and sentences for people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from geq.model.config import from_fields
from geq.safe_parsing import finite

Verdict = Literal["holds", "violated", "says nothing"]


@dataclass(frozen=True)
class TextTable:
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
    tables: Sequence[TextTable] = ()
    notes: Sequence[str] = ()

    def as_mapping(self) -> dict[str, Any]:
        return dict(finite(asdict(self)))

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], where: str) -> Result:
        stated = {name: values[name] for name in ("values", "tables", "notes") if name in values}
        result: Result = from_fields(cls, stated, f"{where} is not a result of geq analyze: it")
        return result


@dataclass(frozen=True)
class Bound:
    """Upper bound with the measured value.

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
