"""Curves: means over seeds, with the range of the seeds behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from geq.report.chart.axis import SERIES, Frame, Range, drawing, line, place
from geq.report.markup import EMPTY, Markup, element
from geq.report.number import Sample, shown


@dataclass(frozen=True)
class Curve:
    """
    Args:
        label: its name in the legend.
        points: x, and the values there, one for each seed.
    """

    label: str
    points: tuple[tuple[float, Sample], ...]

    @classmethod
    def of(cls, label: str, points: dict[float, list[float]]) -> Curve:
        found = ((x, Sample.of(values)) for x, values in sorted(points.items()))
        return cls(label, tuple((x, sample) for x, sample in found if sample))


def line_chart(
    curves: Sequence[Curve],
    title: str,
    x_label: str,
    y_label: str,
    marked: bool = False,
    logarithmic_x: bool = False,
    logarithmic_y: bool = False,
) -> Markup:
    """A curve for each of ``curves``: the mean, and the range from the least to the largest value.

    Args:
        marked: a mark and an error bar at each point, as where few values of an option were tried.
    """
    every = [value for curve in curves for _, sample in curve.points for value in sample.values]
    across = [x for curve in curves for x, _ in curve.points]
    room = 0.06 if marked else 0.0
    x_range = Range.around(across, room, logarithmic_x) if len(set(across)) > 1 else Range.around(across)
    y_range = Range.around(every, 0.06, logarithmic_y)
    frame = Frame(x_range, y_range)
    whole = [x for x in x_range.ticks(6) if x.is_integer()]
    tried = sorted(set(across))
    parts = frame.axes(x_label, y_label, (tried if len(tried) <= 8 else None) if marked else whole or None)
    usable = [usable_curve(curve, logarithmic_y) for curve in curves]
    parts += [band(curve, frame, number) for number, curve in enumerate(usable) if not marked]
    for number, curve in enumerate(usable):
        parts += stroke(curve, frame, number, marked)
    return drawing(frame.width, frame.height, parts, title, describe(curves, x_label, y_label))


def usable_curve(curve: Curve, logarithmic: bool) -> Curve:
    """Without the values that a logarithmic axis cannot show."""
    if not logarithmic:
        return curve
    return Curve.of(curve.label, {x: [v for v in sample.values if v > 0] for x, sample in curve.points})


def band(curve: Curve, frame: Frame, number: int) -> Markup:
    if all(len(sample.values) < 2 for _, sample in curve.points):
        return EMPTY
    upper = [(frame.x(x), frame.y(max(sample.values))) for x, sample in curve.points]
    lower = [(frame.x(x), frame.y(min(sample.values))) for x, sample in reversed(curve.points)]
    corners = " ".join(f"{place(x)},{place(y)}" for x, y in [*upper, *lower])
    return element("polygon", "", {"points": corners, "class": f"band series-{number % SERIES}"})


def stroke(curve: Curve, frame: Frame, number: int, marked: bool) -> list[Markup]:
    kind = f"series-{number % SERIES}"
    means = [(x, sample, sample.mean) for x, sample in curve.points if sample.mean is not None]
    path = " ".join(f"{place(frame.x(x))},{place(frame.y(mean))}" for x, _, mean in means)
    parts = [element("polyline", "", {"points": path, "class": f"line {kind}"})]
    for x, sample, mean in means if marked or len(means) == 1 else []:
        words = f"{curve.label}, {shown(x)}: {shown(mean)} ({len(sample.values)} seeds)"
        if len(sample.values) > 1:
            low, high = frame.y(min(sample.values)), frame.y(max(sample.values))
            parts.append(line(frame.x(x), low, frame.x(x), high, f"whisker {kind}"))
        centre = {"cx": place(frame.x(x)), "cy": place(frame.y(mean)), "r": "4", "class": f"mark {kind}"}
        parts.append(element("circle", element("title", words), centre))
    return parts


def describe(curves: Sequence[Curve], x_label: str, y_label: str) -> str:
    """The ends of the curves in words."""
    ends = []
    for curve in curves:
        if curve.points:
            (first, start), (last, end) = curve.points[0], curve.points[-1]
            ends.append(
                f"{curve.label} from {shown(start.mean)} at {shown(first)} "
                f"to {shown(end.mean)} at {shown(last)}"
            )
    return (
        f"{y_label} over {x_label}: {'; '.join(ends)}." if ends else f"{y_label} over {x_label}: no values."
    )
