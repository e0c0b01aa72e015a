"""Reliability diagram: accuracy in bins of confidence; on the diagonal, confidence can be believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from geq.report.chart.axis import Frame, Range, drawing, line, rectangle
from geq.report.markup import Markup
from geq.report.number import Real, shown


@dataclass(frozen=True)
class Bin:
    """Confidences in [low, high): how many images, their mean confidence and accuracy (shares)."""

    low: Real
    high: Real
    images: int
    confidence: Real
    accuracy: Real


def reliability_chart(bins: Sequence[Bin], title: str) -> Markup:
    """Bars up to the accuracy of each bin, and the gap to its confidence; pale where few images are."""
    frame = Frame(Range(0.0, 1.0), Range(0.0, 1.0), width=340, height=320)
    fifths = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    parts = frame.axes("confidence", "accuracy", fifths)
    total = sum(one.images for one in bins) or 1
    for one in bins:
        if not one.images:
            continue
        left, right = frame.x(one.low) + 0.5, frame.x(one.high) - 0.5
        words = (
            f"confidence {shown(one.low, 2)} to {shown(one.high, 2)}: accuracy {shown(one.accuracy, 3)}, "
            f"mean confidence {shown(one.confidence, 3)}, {one.images} images"
        )
        few = " few" if one.images < 0.01 * total else ""
        parts.append(
            rectangle(
                left,
                frame.y(one.accuracy),
                right - left,
                frame.y(0) - frame.y(one.accuracy),
                f"bar series-0{few}",
                words,
            )
        )
        top, bottom = sorted((frame.y(one.accuracy), frame.y(one.confidence)))
        parts.append(rectangle(left, top, right - left, bottom - top, f"gap{few}", words))
    parts.append(line(frame.x(0), frame.y(0), frame.x(1), frame.y(1), "level"))
    return drawing(frame.width, frame.height, parts, title, describe(bins), "square")


def expected_error(bins: Sequence[Bin]) -> float:
    """ECE: the mean over images of |accuracy − confidence| of their bin.

    >>> expected_error([Bin(0, 0.5, 1, 0.4, 0.5), Bin(0.5, 1, 3, 0.9, 0.8)])
    0.1
    """
    total = sum(one.images for one in bins)
    gaps = sum(one.images * abs(one.accuracy - one.confidence) for one in bins if one.images)
    return round(gaps / total, 12) if total else 0.0


def describe(bins: Sequence[Bin]) -> str:
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
