"""Numbers as a person reads them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Real = float | int
MISSING = "–"
MINUS = "−"


def shown(value: Real | None, digits: int | None = None) -> str:
    """``value`` with so many digits after the point; by its size where ``digits`` is None.

    >>> shown(68.312, 1), shown(None), shown(float("nan")), shown(-0.5), shown(49005), shown(6e-4)
    ('68.3', '–', '–', '−0.500', '49,005', '6.00e−4')
    """
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if digits is not None:
        text = f"{value:,.{digits}f}"
    elif float(value).is_integer() and abs(value) < 1e15:
        text = f"{value:,.0f}"
    elif abs(value) < 1e-2 or abs(value) >= 1e7:
        mantissa, exponent = f"{value:.2e}".split("e")
        text = f"{mantissa}e{int(exponent)}"
    else:
        text = f"{value:,.{1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3}f}"
    if not any(digit in text for digit in "123456789"):
        text = text.removeprefix("-")  # no negative zero
    return text.replace("-", MINUS)


def signed(value: Real | None, digits: int | None = None) -> str:
    """With a sign before it, as differences are written.

    >>> signed(1.25, 1), signed(-1.25, 2), signed(0.0, 1), signed(None)
    ('+1.2', '−1.25', '0.0', '–')
    """
    text = shown(value, digits)
    positive = value is not None and value > 0 and any(digit in text for digit in "123456789∞")
    return f"+{text}" if positive else text


def duration(seconds: Real | None) -> str:
    """
    >>> duration(31.2), duration(523), duration(90000), duration(None)
    ('31.2 s', '8 min 43 s', '25 h 0 min', '–')
    """
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


@dataclass(frozen=True)
class Sample:
    """Numbers of one kind, one for each seed; what is not finite is left out."""

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
        """The standard deviation of the sample; None from fewer than two.

        >>> Sample((1.0, 3.0)).spread
        1.4142135623730951
        """
        if len(self.values) < 2 or (mean := self.mean) is None:
            return None
        return math.sqrt(math.fsum((value - mean) ** 2 for value in self.values) / (len(self.values) - 1))


def number(value: object) -> float | None:
    """``value`` if it is a finite number, else None: records come from files.

    >>> number(1), number(True), number("1"), number(float("inf")), number(10**400)
    (1.0, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None
