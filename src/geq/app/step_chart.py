"""A curve over the steps of a solve on a logarithmic axis, with a mark at one of them."""

from __future__ import annotations

from dataclasses import dataclass

from geq.report.chart.axis import Frame, Range, drawing, line, place
from geq.report.markup import Markup, element
from geq.report.number import Real, number, shown


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
        """What a logarithmic axis can show: rounding may leave zero or less."""
        return [
            (step, value)
            for step, value in enumerate(self.values, start=1)
            if number(value) is not None and value > 0
        ]


def step_chart(title: str, lines: list[Line], step: int, limit: Real | None) -> Markup:
    """
    Args:
        title: what is drawn.
        lines: the one with the mark last, so that it is on top.
        step: where the mark is.
        limit: a level to draw across; None for none.
    """
    every = [value for one in lines for _, value in one.points()] + ([] if limit is None else [limit])
    longest = max(len(one.values) for one in lines)
    across = Range(0.5, longest + 0.5)
    frame = Frame(across, Range.around(every, logarithmic=True), height=200, left=56)
    whole = [value for value in across.ticks(6) if value.is_integer()]
    parts = frame.axes("step", "", whole)
    if limit is not None:
        parts.append(line(frame.left, frame.y(limit), frame.width - frame.right, frame.y(limit), "stop"))
    parts.append(line(frame.x(step), frame.top, frame.x(step), frame.height - frame.bottom, "cursor"))
    for one in sorted(lines, key=lambda one: one.marked):
        corners = " ".join(f"{place(frame.x(x))},{place(frame.y(y))}" for x, y in one.points())
        parts.append(element("polyline", "", {"points": corners, "class": f"way {one.name}"}))
        for x, y in one.points():
            here = one.marked and x == step
            at = {"cx": place(frame.x(x)), "cy": place(frame.y(y)), "r": "7" if here else "3"}
            words = element("title", f"step {x}: {shown(y)}")
            parts.append(
                element("circle", words, {**at, "class": f"dot {one.name}{' here' if here else ''}"})
            )
    chart = drawing(frame.width, frame.height, parts, title, describe(lines, step), "steps")
    return element("div", [element("h4", title), chart])


def describe(lines: list[Line], step: int) -> str:
    marked = next(one for one in lines if one.marked)
    value = marked.values[step - 1] if step <= len(marked.values) else None
    return f"After step {step} of {len(marked.values)}: {shown(value)}."
