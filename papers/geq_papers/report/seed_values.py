"""Numbers that come from files: one for each seed, without those that are not finite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from geq_papers.experiment.claim import deviation

LARGEST = 1e60
"""Larger numbers are no result: their squares, or a chart of them, would overflow."""


@dataclass(frozen=True)
class Sample:
    """Numbers of one kind, one for each seed."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[object]) -> Sample:
        return cls(tuple(found for value in values if (found := number(value)) is not None))

    def __bool__(self) -> bool:
        return bool(self.values)

    @property
    def mean(self) -> float | None:
        return math.fsum(self.values) / len(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """The standard deviation; None with fewer than two values."""
        return deviation(list(self.values))


def number(value: object) -> float | None:
    """Return ``value`` if it is a number of a size that can be averaged and drawn, else None.

    >>> number(1), number(True), number("1"), number(float("inf")), number(10**400), number(1e300)
    (1.0, None, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if abs(found) <= LARGEST else None
