"""From numbers to places on a picture: round ticks, and the frame that all charts share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from geq.report.markup import Markup, element
from geq.report.number import MINUS, Real, number

SERIES = 8
"""Colours and dashes of the style sheet; more series begin again."""


def place(value: Real) -> str:
    """A coordinate with one digit after the point: the same bytes on every machine.

    >>> place(3.14159), place(-0.001)
    ('3.1', '0.0')
    """
    return f"{value:.1f}".replace("-0.0", "0.0")


def ticks(low: Real, high: Real, count: int = 5) -> list[float]:
    """About ``count`` round numbers in [low, high].

    >>> ticks(0.0, 1.0), ticks(58, 71)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [60.0, 65.0, 70.0])
    """
    if not high > low:
        return [float(low)]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * round_number for round_number in (1, 2, 5, 10) if power * round_number >= raw * 0.85)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{position * step:.12g}") for position in range(first, last + 1)]


def tick_label(value: Real) -> str:
    """
    >>> tick_label(0.2), tick_label(50000.0), tick_label(-3.0)
    ('0.2', '50k', '−3')
    """
    if value and abs(value) >= 1e4:
        value, unit = (value / 1e6, "M") if abs(value) >= 1e6 else (value / 1e3, "k")
        return f"{value:g}{unit}".replace("-", MINUS)
    return f"{value:g}".replace("-", MINUS)


@dataclass(frozen=True)
class Range:
    """An interval of numbers on an axis, linear or logarithmic."""

    low: Real
    high: Real
    logarithmic: bool = False

    @classmethod
    def around(cls, values: Iterable[Real], margin: Real = 0.06, logarithmic: bool = False) -> Range:
        """All ``values`` with some room; [0, 1] for none.

        >>> Range.around([1.0, 2.0], margin=0.5)
        Range(low=0.5, high=2.5, logarithmic=False)
        """
        found = [value for value in values if number(value) is not None and (value > 0 or not logarithmic)]
        if not found:
            return cls(0.1, 1.0, True) if logarithmic else cls(0.0, 1.0)
        low, high = min(found), max(found)
        if logarithmic:
            room = max((high / low) ** margin, 1.2)
            return cls(low / room, high * room, True)
        room = (high - low) * margin or abs(low) * 0.05 or 1.0
        return cls(low - room, high + room)

    def share(self, value: Real) -> float:
        """Where ``value`` lies between low (0) and high (1)."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, count: int = 5) -> list[float]:
        if not self.logarithmic:
            return ticks(self.low, self.high, count)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        wanted = (1.0,) if len(powers) > 4 else (1.0, 2.0, 5.0)
        found = [float(f"{digit * 10.0**power:.6g}") for power in powers for digit in wanted]
        return [value for value in found if self.low <= value <= self.high]


@dataclass(frozen=True)
class Frame:
    """A rectangle with two axes; the picture around it is ``width`` × ``height``."""

    across: Range
    up: Range
    width: Real = 440
    height: Real = 280
    left: Real = 52
    right: Real = 14
    top: Real = 12
    bottom: Real = 44

    def x(self, value: Real) -> float:
        return self.left + self.across.share(value) * (self.width - self.left - self.right)

    def y(self, value: Real) -> float:
        return self.height - self.bottom - self.up.share(value) * (self.height - self.top - self.bottom)

    def axes(self, x_label: str, y_label: str, x_ticks: list[float] | None = None) -> list[Markup]:
        """Grid lines, their numbers, and what is on the axes."""
        floor, right = self.height - self.bottom, self.width - self.right
        drawn = []
        for value in self.up.ticks():
            level = self.y(value)
            drawn.append(line(self.left, level, right, level, "grid"))
            drawn.append(text(self.left - 7, level + 4, tick_label(value), "tick end"))
        for value in self.across.ticks(6) if x_ticks is None else x_ticks:
            drawn.append(line(self.x(value), floor, self.x(value), floor + 4, "axis"))
            drawn.append(text(self.x(value), floor + 17, tick_label(value), "tick middle"))
        drawn.append(line(self.left, floor, right, floor, "axis"))
        drawn.append(text((self.left + right) / 2, self.height - 8, x_label, "label middle"))
        middle = (self.top + floor) / 2
        turned = {"transform": f"rotate(-90 13 {place(middle)})"}
        return [*drawn, text(13, middle, y_label, "label middle", turned)]


def line(x1: Real, y1: Real, x2: Real, y2: Real, kind: str) -> Markup:
    return element(
        "line", "", {"x1": place(x1), "y1": place(y1), "x2": place(x2), "y2": place(y2), "class": kind}
    )


def rectangle(x: Real, y: Real, width: Real, height: Real, kind: str, title: str = "") -> Markup:
    size = {"x": place(x), "y": place(y), "width": place(max(width, 0)), "height": place(max(height, 0))}
    return element("rect", element("title", title) if title else "", {**size, "class": kind})


def text(x: Real, y: Real, content: str, kind: str, more: dict[str, str] | None = None) -> Markup:
    return element("text", content, {"x": place(x), "y": place(y), "class": kind, **(more or {})})


def drawing(
    width: Real, height: Real, parts: list[Markup], title: str, description: str, kind: str = ""
) -> Markup:
    """The ``svg`` element with its alternative text."""
    attributes = {
        "viewBox": f"0 0 {place(width)} {place(height)}",
        "role": "img",
        "aria-label": f"{title}. {description}" if description else title,
        "class": f"chart {kind}".strip(),
    }
    return element("svg", [element("title", title), element("desc", description), *parts], attributes)
