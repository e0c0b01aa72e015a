"""Horizontal bars in groups: long names stay readable, also on a phone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from geq.report.chart.axis import SERIES, Range, drawing, line, rectangle, text, tick_label
from geq.report.markup import Markup
from geq.report.number import Sample, shown

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 440, 118, 16, 8, 42


def bar_chart(
    groups: Sequence[str], series: Mapping[str, Mapping[str, Sample]], title: str, x_label: str
) -> Markup:
    """A group of bars for each of ``groups``, one for each of ``series``, from 0 to the mean; a line shows
    the range of the seeds.
    """
    thick = 8.0 if len(series) > 1 else 12.0
    pitch = thick * len(series) + 8
    floor = TOP + pitch * len(groups)
    every = [value for found in series.values() for sample in found.values() for value in sample.values]
    span = Range(min(0.0, *every), max(0.0, *every) * 1.02) if any(every) else Range(0.0, 1.0)

    def x(value: float) -> float:
        return LEFT + span.share(value) * (WIDTH - LEFT - RIGHT)

    parts = []
    for value in span.ticks():
        parts.append(line(x(value), TOP, x(value), floor, "grid"))
        parts.append(text(x(value), floor + 16, tick_label(value), "tick middle"))
    for row, group in enumerate(groups):
        top = TOP + row * pitch + 4
        parts.append(text(LEFT - 8, top + thick * len(series) / 2 + 4, group, "tick end"))
        for number, (label, found) in enumerate(series.items()):
            sample = found.get(group, Sample(()))
            if sample.mean is None:
                continue
            left, right = sorted((x(0.0), x(sample.mean)))
            words = f"{label}, {group}: {shown(sample.mean)}"
            level = top + number * thick
            kind = f"bar series-{number % SERIES}"
            parts.append(rectangle(left, level, right - left, thick - 1.5, kind, words))
            if len(sample.values) > 1:
                middle = level + (thick - 1.5) / 2
                parts.append(line(x(min(sample.values)), middle, x(max(sample.values)), middle, "range"))
    parts.append(line(x(0.0), TOP, x(0.0), floor, "axis"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, floor + 35, x_label, "label middle"))
    return drawing(WIDTH, floor + BOTTOM, parts, title, describe(groups, series, x_label))


def describe(groups: Sequence[str], series: Mapping[str, Mapping[str, Sample]], x_label: str) -> str:
    words = []
    for label, found in series.items():
        means = {group: mean for group in groups if (mean := found.get(group, Sample(())).mean) is not None}
        if means:
            low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
            words.append(
                f"{label} from {shown(means[low])} ({low}) to {shown(means[high])} ({high}), "
                f"mean {shown(sum(means.values()) / len(means))}"
            )
    return f"{x_label} of {len(groups)} groups: {'; '.join(words)}."
