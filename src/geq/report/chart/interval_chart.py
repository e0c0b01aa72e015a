"""A difference and its interval on a strip: zero, ours, and what was published."""

from __future__ import annotations

from geq.report.chart.axis import Range, drawing, line, place
from geq.report.markup import Markup, element
from geq.report.number import Real, number, signed

WIDTH, HEIGHT, SIDE = 150, 26, 8


def interval_chart(
    mean: Real | None, low: Real | None, high: Real | None, published: Real | None, verdict: str
) -> Markup:
    """On its own scale: what counts is on which side of zero, and how far the interval reaches."""
    known = [
        value for value in (mean, low, high, published) if value is not None and number(value) is not None
    ]
    span = Range.around([0.0, *known], 0.04)

    def x(value: Real) -> float:
        return SIDE + span.share(value) * (WIDTH - 2 * SIDE)

    middle = HEIGHT / 2
    parts = [line(x(0.0), 2, x(0.0), HEIGHT - 2, "axis")]
    if low is not None and high is not None and number(low) is not None and number(high) is not None:
        parts.append(line(x(low), middle, x(high), middle, "whisker"))
    if published is not None and number(published) is not None:
        corners = [(0.0, -6.0), (6.0, 0.0), (0.0, 6.0), (-6.0, 0.0)]
        path = " ".join(f"{place(x(published) + dx)},{place(middle + dy)}" for dx, dy in corners)
        parts.append(element("polygon", "", {"points": path, "class": "published"}))
    if mean is not None and number(mean) is not None:
        parts.append(
            element("circle", "", {"cx": place(x(mean)), "cy": place(middle), "r": 4.5, "class": "mark"})
        )
    title = (
        f"{verdict}: ours {signed(mean)}, 95 % interval {signed(low)} to {signed(high)}, "
        f"published {signed(published)}"
    )
    return drawing(WIDTH, HEIGHT, parts, title, "", "interval")
