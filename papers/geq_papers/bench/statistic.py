"""Ratios of paired timings: the only numbers of a benchmark that carry over to other machines."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from geq.errors import InputError


@dataclass(frozen=True)
class Ratio:
    """The median of paired ratios, and their quartiles as the spread."""

    median: float
    low: float
    high: float
    repeats: int


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Ratio:
    """Ratio of two series that were measured in turns.

    The ratio is taken pair by pair, so that a machine that is slow for a while slows both of a pair; the
    median then forgets the pairs in which only one was disturbed.

    >>> ratio([2.0, 4.0, 60.0], [1.0, 2.0, 3.0])
    Ratio(median=2.0, low=2.0, high=20.0, repeats=3)
    """
    if len(numerator) != len(denominator) or not numerator:
        raise InputError(
            "a ratio needs two series of equal length, with at least one repeat: "
            f"got {len(numerator)} and {len(denominator)}"
        )
    if min(*numerator, *denominator) <= 0:
        raise InputError("timings must be above 0; measure more work per repeat")
    ratios = sorted(a / b for a, b in zip(numerator, denominator, strict=True))
    quarter = len(ratios) // 4
    return Ratio(statistics.median(ratios), ratios[quarter], ratios[-1 - quarter], len(ratios))


def constant(value: float) -> Ratio:
    """A number without spread, such as a count of bytes."""
    return Ratio(value, value, value, 1)
