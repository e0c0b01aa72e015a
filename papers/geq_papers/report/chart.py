"""Charts of the page: curves over seeds, bars in groups, reliability, the interval of a claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from geq.number_format import Real, shown, signed
from geq.safe_parsing import printable
from geq_papers.report.seed_values import Sample, number
from geq_papers.report.svg_drawing import drawing, place_ticks

SERIES = 8
"""Colours and dashes of the style sheet; further series begin again."""


@dataclass(frozen=True)
class Curve:
    """
    Args:
        label: Name in the legend.
        points: Pairs of x and the values there, one for each seed.
    """

    label: str
    points: tuple[tuple[float, Sample], ...]

    @classmethod
    def of(cls, label: str, points: Mapping[float, Sequence[float]]) -> Curve:
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
    """Draw the mean of each curve, and the range from the least to the largest value.

    Args:
        marked: Draw a mark and an error bar at each point, as where few values of an option were tried.
    """
    with drawing() as picture:
        axes = picture.axes
        axes.set_xscale("log" if logarithmic_x else "linear")
        axes.set_yscale("log" if logarithmic_y else "linear")
        axes.margins(0.06 if marked else 0.0, 0.06)
        for place, curve in enumerate(curves):
            kind = f"series-{place % SERIES}"
            kept = ((x, [v for v in s.values if v > 0 or not logarithmic_y]) for x, s in curve.points)
            points = [(x, Sample(tuple(values))) for x, values in kept if values]
            means = [sample.mean for _, sample in points]
            across = [x for x, _ in points]
            several = any(len(sample.values) > 1 for _, sample in points)
            if several and not marked:
                edge = [*across, *reversed(across)]
                limits = [max(s.values) for _, s in points] + [min(s.values) for _, s in reversed(points)]
                picture.add(axes.fill(edge, limits), f"band {kind}")
            picture.add(axes.plot(across, means), f"line {kind}")
            for x, sample in points if marked or len(points) == 1 else []:
                if len(sample.values) > 1:
                    ends = [min(sample.values), max(sample.values)]
                    picture.add(axes.plot([x, x], ends), f"whisker {kind}")
                words = f"{curve.label}, {shown(x)}: {shown(sample.mean)} ({len(sample.values)} seeds)"
                picture.add(axes.plot([x], [sample.mean], "o"), f"mark {kind}", words)
        tried = sorted({x for curve in curves for x, _ in curve.points})
        few = marked and 0 < len(tried) <= 8
        place_ticks(axes.xaxis, picture.far_apart(tried) if few else None, whole=not marked)
        place_ticks(axes.yaxis)
        picture.show_spine("bottom")
        picture.label(x_label, y_label)
        return picture.svg(title, ends_in_words(curves, x_label, y_label))


def ends_in_words(curves: Sequence[Curve], x_label: str, y_label: str) -> str:
    ends = [
        f"{curve.label} from {shown(curve.points[0][1].mean)} at {shown(curve.points[0][0])} "
        f"to {shown(curve.points[-1][1].mean)} at {shown(curve.points[-1][0])}"
        for curve in curves
        if curve.points
    ]
    return f"{y_label} over {x_label}: {'; '.join(ends) or 'no values'}."


def bar_chart(
    groups: Sequence[str], series: Mapping[str, Mapping[str, Sample]], title: str, x_label: str
) -> Markup:
    """Draw horizontal bars from 0 to the mean, one for each of ``series`` in each of ``groups``; a line shows
    the range of the seeds. Long names of groups stay readable, also on a phone.
    """
    thick = 8.0 if len(series) > 1 else 12.0
    pitch = thick * len(series) + 8
    floor = pitch * len(groups)
    with drawing(height=floor + 50, left=118, top=8, bottom=42, grid="x") as picture:
        axes = picture.axes
        axes.set_ylim(floor, 0)
        axes.set_yticks(
            [pitch * (row + 0.5) for row in range(len(groups))], [printable(group) for group in groups]
        )
        for row, group in enumerate(groups):
            for place, (label, found) in enumerate(series.items()):
                sample = found.get(group, Sample(()))
                if sample.mean is None:
                    continue
                middle = pitch * row + 4 + thick * (place + 0.5)
                words = f"{label}, {group}: {shown(sample.mean)}"
                bar = axes.barh(middle, sample.mean, thick - 1.5)
                picture.add(bar, f"bar series-{place % SERIES}", words)
                if len(sample.values) > 1:
                    ends = [min(sample.values), max(sample.values)]
                    picture.add(axes.plot(ends, [middle, middle]), "range")
        picture.add([axes.axvline(0.0)], "axis")
        place_ticks(axes.xaxis)
        picture.label(x_label, "")
        return picture.svg(title, bars_in_words(groups, series, x_label))


def bars_in_words(groups: Sequence[str], series: Mapping[str, Mapping[str, Sample]], x_label: str) -> str:
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


@dataclass(frozen=True)
class Bin:
    """Confidences in [low, high): how many images, their mean confidence and accuracy (shares)."""

    low: Real
    high: Real
    images: int
    confidence: Real
    accuracy: Real


def reliability_chart(bins: Sequence[Bin], title: str) -> Markup:
    """Draw the accuracy of each bin and the gap to its confidence; pale where few images are."""
    total = sum(one.images for one in bins)
    with drawing(width=340, height=320) as picture:
        axes = picture.axes
        for one in (one for one in bins if one.images):
            words = (
                f"confidence {shown(one.low, 2)} to {shown(one.high, 2)}: accuracy {shown(one.accuracy, 3)}, "
                f"mean confidence {shown(one.confidence, 3)}, {one.images} images"
            )
            few = " few" if one.images < 0.01 * total else ""
            where = {"width": (one.high - one.low) * 0.97, "align": "edge"}
            picture.add(axes.bar(one.low, one.accuracy, **where), f"bar series-0{few}", words)
            gap = axes.bar(one.low, one.confidence - one.accuracy, bottom=one.accuracy, **where)
            picture.add(gap, f"gap{few}", words)
        picture.add(axes.plot([0, 1], [0, 1]), "level")
        axes.set(xlim=(0, 1), ylim=(0, 1))
        place_ticks(axes.xaxis)
        place_ticks(axes.yaxis)
        picture.show_spine("bottom")
        picture.label("confidence", "accuracy")
        return picture.svg(title, bins_in_words(bins))


def expected_error(bins: Sequence[Bin]) -> float:
    """ECE: the mean over images of |accuracy − confidence| of their bin.

    >>> expected_error([Bin(0, 0.5, 1, 0.4, 0.5), Bin(0.5, 1, 3, 0.9, 0.8)])
    0.1
    """
    total = sum(one.images for one in bins)
    gaps = sum(one.images * abs(one.accuracy - one.confidence) for one in bins if one.images)
    return round(gaps / total, 12) if total else 0.0


def bins_in_words(bins: Sequence[Bin]) -> str:
    used = [one for one in bins if one.images]
    if not used:
        return "No images."
    worst = max(used, key=lambda one: abs(one.accuracy - one.confidence))
    side = "over" if worst.confidence > worst.accuracy else "under"
    return (
        f"Expected calibration error {shown(expected_error(bins), 3)}; the worst bin "
        f"({shown(worst.low, 2)} to {shown(worst.high, 2)}) is {side}confident by "
        f"{shown(abs(worst.accuracy - worst.confidence), 3)}."
    )


@dataclass(frozen=True)
class IntervalStrip:
    """A difference and its interval on a scale of its own, from 0 to 100; what is None is not drawn."""

    words: str
    zero: float | None
    mean: float | None
    low: float | None
    high: float | None
    published: float | None

    @classmethod
    def of(
        cls, mean: Real | None, low: Real | None, high: Real | None, published: Real | None, verdict: str
    ) -> IntervalStrip:
        values = [number(value) for value in (0.0, mean, low, high, published)]
        known = [value for value in values if value is not None]
        start, width = min(known), (max(known) - min(known)) or 1.0
        words = (
            f"{verdict}: ours {signed(mean)}, 95 % interval {signed(low)} to {signed(high)}, "
            f"published {signed(published)}"
        )
        return cls(words, *(None if v is None else round(100 * (v - start) / width, 1) for v in values))
