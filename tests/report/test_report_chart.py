"""Pictures: well-formed, inside of their frame, the same bytes each time, with alternative text."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geq.report.chart.axis import Frame, Range, ticks
from geq.report.chart.bar_chart import bar_chart
from geq.report.chart.interval_chart import interval_chart
from geq.report.chart.line_chart import Curve, line_chart
from geq.report.chart.reliability_chart import Bin, expected_error, reliability_chart
from geq.report.number import Sample

quickly = settings(deadline=None, max_examples=25)
FINITE = st.floats(-1e6, 1e6)


@quickly
@given(FINITE, st.floats(1e-3, 1e6), st.integers(2, 8))
def test_ticks_are_round_and_inside(low: float, width: float, count: int) -> None:
    high = low + width
    found = ticks(low, high, count)
    slack = 1e-6 * max(abs(low), abs(high), width)
    assert all(low - slack <= value <= high + slack for value in found)
    assert len(found) <= 2 * count + 2


def test_ends_of_a_range_are_ends_of_the_frame() -> None:
    frame = Frame(
        Range(1.0, 100.0, logarithmic=True), Range(-1.0, 1.0), width=200, height=100, left=20, right=10
    )
    assert frame.x(1.0) == pytest.approx(20)
    assert frame.x(100.0) == pytest.approx(190)
    assert frame.x(10.0) == pytest.approx(105), "half of the decades"
    assert frame.y(1.0) == pytest.approx(frame.top)
    assert frame.y(-1.0) == pytest.approx(100 - frame.bottom)


def drawn(svg: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert root.findtext("title")
    return root


def points(root: ElementTree.Element, kind: str) -> list[tuple[float, float]]:
    found = [one for one in root.iter() if (one.get("class") or "").startswith(kind) and one.get("points")]
    pairs = [pair.split(",") for one in found for pair in (one.get("points") or "").split()]
    return [(float(x), float(y)) for x, y in pairs]


@quickly
@given(st.lists(st.lists(FINITE, min_size=1, max_size=4), min_size=1, max_size=6), st.booleans())
def test_curves_stay_inside_of_the_picture(values: list[list[float]], marked: bool) -> None:
    curve = Curve.of("<a & b>", {float(x): found for x, found in enumerate(values)})
    svg = line_chart([curve], "t", "epoch", "y", marked=marked)
    root = drawn(svg)
    assert all(0 <= x <= 440 and 0 <= y <= 280 for x, y in points(root, "line"))
    assert svg == line_chart([curve], "t", "epoch", "y", marked=marked)


def test_a_curve_is_the_mean_and_the_band_the_range() -> None:
    curve = Curve.of("a", {1.0: [0.0, 4.0], 2.0: [1.0, math.nan]})
    root = drawn(line_chart([curve], "t", "epoch", "y"))
    (_, first), (_, second) = points(root, "line")
    band = [y for _, y in points(root, "band")]
    frame = Frame(Range(1.0, 2.0), Range.around([0.0, 4.0, 1.0]))
    assert first == pytest.approx(frame.y(2.0), abs=0.06)
    assert second == pytest.approx(frame.y(1.0), abs=0.06)
    assert max(band) == pytest.approx(frame.y(0.0), abs=0.06)
    assert min(band) == pytest.approx(frame.y(4.0), abs=0.06)


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show() -> None:
    curve = Curve.of("a", {1.0: [10.0], 2.0: [0.0], 3.0: [1000.0]})
    assert len(points(drawn(line_chart([curve], "t", "x", "y", logarithmic_y=True)), "line")) == 2


def test_bars_are_as_long_as_their_numbers() -> None:
    series = {"a": {"fog": Sample((20.0, 40.0)), "snow": Sample((60.0,))}, "b": {"fog": Sample((15.0,))}}
    root = drawn(bar_chart(["fog", "snow"], series, "t", "accuracy"))
    bars = [one for one in root.iter() if (one.get("class") or "").startswith("bar ")]
    lengths = [float(one.get("width") or 0) for one in bars]
    assert lengths == [
        pytest.approx(lengths[1] * 2, abs=0.2),
        lengths[1],
        pytest.approx(lengths[1] * 4, abs=0.4),
    ]
    assert [one.findtext("title") for one in bars] == ["a, fog: 30", "b, fog: 15", "a, snow: 60"]


@pytest.mark.parametrize("series", [{}, {"a": {}}, {"a": {"fog": Sample((0.0,))}}])
def test_bars_without_numbers(series: dict[str, dict[str, Sample]]) -> None:
    root = drawn(bar_chart(["fog"], series, "t", "accuracy"))
    assert not [one for one in root.iter("rect") if "NaN" in str(one.attrib) or "nan" in str(one.attrib)]


def test_reliability() -> None:
    bins = [Bin(0.0, 0.5, 0, 0.0, 0.0), Bin(0.5, 0.8, 1, 0.7, 0.5), Bin(0.8, 1.0, 3, 0.9, 0.9)]
    assert expected_error(bins) == pytest.approx(0.05)
    root = drawn(reliability_chart(bins, "t"))
    assert "0.50 to 0.80) is overconfident by 0.200" in (root.get("aria-label") or "")
    assert len([one for one in root.iter() if (one.get("class") or "").startswith("bar")]) == 2
    assert "No images" in (drawn(reliability_chart(bins[:1], "t")).get("aria-label") or "")


@quickly
@given(st.none() | FINITE, st.none() | FINITE, st.none() | FINITE)
def test_an_interval_is_drawn_with_what_is_known(
    mean: float | None, half: float | None, published: float | None
) -> None:
    low = None if mean is None or half is None else mean - abs(half)
    high = None if mean is None or half is None else mean + abs(half)
    root = drawn(interval_chart(mean, low, high, published, "holds"))
    dots = [float(one.get("cx") or -1) for one in root.iter() if one.tag == "circle"]
    assert len(dots) == (mean is not None)
    assert all(0 <= x <= 150 for x in dots)
