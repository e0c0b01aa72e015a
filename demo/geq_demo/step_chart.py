"""A curve over the steps of a solve on a logarithmic axis, with a mark at one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from geq.number_format import MINUS, Real, shown
from geq_demo.markup import Markup, element

WIDTH, HEIGHT, LEFT, RIGHT, TOP, FLOOR = 440, 200, 56, 426, 12, 156
"""Of the picture, and of the rectangle between its axes."""


@dataclass(frozen=True)
class Line:
    """
    Args:
        name: of its colour.
        values: at steps 1, 2, …
        marked: whether the mark is on it.
    """

    name: str
    values: tuple[float, ...]
    marked: bool

    def points(self) -> list[tuple[int, float]]:
        """Return the points that a logarithmic axis can show: rounding may leave zero or less."""
        return [
            (step, value)
            for step, value in enumerate(self.values, start=1)
            if math.isfinite(value) and value > 0
        ]


def step_chart(title: str, lines: list[Line], step: int, limit: Real | None) -> Markup:
    """
    Args:
        title: what is drawn.
        lines: the one with the mark last, so that it is on top.
        step: where the mark is.
        limit: a level to draw across; None for none.
    """
    levels = [value for one in lines for _, value in one.points()] + ([] if limit is None else [limit])
    low, high = (math.log10(min(levels)) - 0.1, math.log10(max(levels)) + 0.1) if levels else (-1.0, 0.0)
    longest = max(len(one.values) for one in lines)

    def x(at: int) -> str:
        return f"{LEFT + (at - 0.5) / longest * (RIGHT - LEFT):.1f}"

    def y(value: Real) -> str:
        return f"{FLOOR - (math.log10(value) - low) / (high - low) * (FLOOR - TOP):.1f}"

    parts = [
        line(LEFT, FLOOR, RIGHT, FLOOR, "axis"),
        text((LEFT + RIGHT) / 2, HEIGHT - 8, "step", "label middle"),
    ]
    for power in powers(low, high):
        level, label = y(power), f"{power:g}".replace("-", MINUS)
        parts.append(line(LEFT, level, RIGHT, level, "grid"))
        parts.append(text(LEFT - 7, f"{float(level) + 4:.1f}", label, "tick end"))
    for at in range(1, longest + 1, -(-longest // 8)):
        parts.append(text(x(at), FLOOR + 17, str(at), "tick middle"))
    if limit is not None:
        parts.append(line(LEFT, y(limit), RIGHT, y(limit), "stop"))
    parts.append(line(x(step), TOP, x(step), FLOOR, "cursor"))
    for one in sorted(lines, key=lambda one: one.marked):
        corners = " ".join(f"{x(at)},{y(value)}" for at, value in one.points())
        parts.append(element("polyline", "", {"points": corners, "class": f"way {one.name}"}))
        for at, value in one.points():
            here = one.marked and at == step
            centre = {"cx": x(at), "cy": y(value), "r": "7" if here else "3"}
            words = element("title", f"step {at}: {shown(value)}")
            kind = f"dot {one.name}{' here' if here else ''}"
            parts.append(element("circle", words, {**centre, "class": kind}))
    described = describe(lines, step)
    seen = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "aria-label": f"{title}. {described}"}
    chart = element(
        "svg",
        [element("title", title), element("desc", described), *parts],
        {**seen, "class": "chart steps"},
    )
    return element("div", [element("h4", title), chart])


def powers(low: float, high: float) -> list[float]:
    """Return round numbers between powers of ten.

    >>> powers(-2.5, 0.0), powers(0.0, 0.8)
    ([0.01, 0.1, 1.0], [1.0, 2.0, 5.0])
    """
    whole = range(math.floor(low), math.ceil(high) + 1)
    digits = (1, 2, 5) if high - low < 2 else (1,)
    found = [float(f"{digit}e{power}") for power in whole for digit in digits]
    return [value for value in found if low <= math.log10(value) <= high]


def line(x1: Real | str, y1: Real | str, x2: Real | str, y2: Real | str, kind: str) -> Markup:
    return element("line", "", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": kind})


def text(x: Real | str, y: Real | str, content: str, kind: str) -> Markup:
    return element("text", content, {"x": x, "y": y, "class": kind})


def describe(lines: list[Line], step: int) -> str:
    marked = next(one for one in lines if one.marked)
    value = marked.values[step - 1] if step <= len(marked.values) else None
    return f"After step {step} of {len(marked.values)}: {shown(value)}."
