"""Pictures: well-formed, inside of their frame, the same bytes each time, with alternative text."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geq_papers.report.chart import (
    Bin,
    Curve,
    IntervalStrip,
    bar_chart,
    expected_error,
    line_chart,
    reliability_chart,
)
from geq_papers.report.page import templates
from geq_papers.report.seed_values import Sample

quickly = settings(deadline=None, max_examples=25)
FINITE = st.floats(-1e6, 1e6)


def drawn(svg: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert root.findtext("title")
    return root


def shapes(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [one for one in root.iter() if kind in (one.get("class") or "").split()]


def corners(shape: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", shape.get("d") or "")]


def points(root: ElementTree.Element, kind: str) -> list[tuple[float, float]]:
    return [pair for one in shapes(root, kind) for pair in corners(one)]


def ticks(root: ElementTree.Element, anchor: str) -> dict[float, float]:
    """Number on an axis -> where it stands: anchor "middle" on the lower one, "end" on the left one."""
    found = [one for one in shapes(root, "tick") if one.get("text-anchor") == anchor]
    across = "x" if anchor == "middle" else "y"
    return {float((one.text or "").replace("−", "-")): float(one.get(across) or 0) for one in found}


def between(level: float, low: tuple[float, float], high: tuple[float, float]) -> float:
    """The place of a number, from the (number, place) of two others."""
    return low[1] + (level - low[0]) / (high[0] - low[0]) * (high[1] - low[1])


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
    lines = [y for grid in shapes(root, "grid") for _, y in corners(grid)]
    marks = dict(zip(ticks(root, "end"), lines[::2], strict=True))
    low, high = (0.0, marks[0.0]), (4.0, marks[4.0])
    assert first == pytest.approx(between(2.0, low, high), abs=0.11)
    assert second == pytest.approx(between(1.0, low, high), abs=0.11)
    assert max(band) == pytest.approx(marks[0.0], abs=0.11)
    assert min(band) == pytest.approx(marks[4.0], abs=0.11)


def test_ticks_are_round_and_apart() -> None:
    curve = Curve.of("a", {1.0: [0.123], 2.0: [97.9], 7.0: [3.0]})
    root = drawn(line_chart([curve], "t", "epoch", "y"))
    assert list(ticks(root, "middle")) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert list(ticks(root, "end")) == [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    close = Curve.of("a", {x: [1.0] for x in (0.0, 0.05, 0.2, 0.5, 5.0)})
    places = sorted(ticks(drawn(line_chart([close], "t", "γ", "y", marked=True)), "middle").values())
    assert all(second - first >= 20 for first, second in pairwise(places))


def test_a_logarithmic_axis_has_powers_of_ten() -> None:
    curve = Curve.of("a", {1.0: [1.0], 10.0: [2.0], 100.0: [3.0]})
    root = drawn(line_chart([curve], "t", "x", "y", marked=True, logarithmic_x=True))
    places = ticks(root, "middle")
    assert places[10.0] == pytest.approx((places[1.0] + places[100.0]) / 2, abs=0.11), "half of the decades"


@pytest.mark.parametrize("logarithmic", [False, True])
def test_very_large_and_small_numbers_are_drawn(logarithmic: bool) -> None:
    curve = Curve.of("a", {1.0: [1e60, -1e60], 2.0: [1e-60, 1e308], 3.0: [1.0]})
    drawn(line_chart([curve], "t", "x", "y", marked=True, logarithmic_y=logarithmic))
    drawn(bar_chart(["fog"], {"a": {"fog": curve.points[0][1]}}, "t", "x"))


@quickly
@given(st.text())
def test_labels_are_text_and_nothing_else(words: str) -> None:
    curve = Curve.of(words, {1.0: [1.0, 2.0], 2.0: [2.0]})
    root = drawn(line_chart([curve], f"{words}$\\frac$", words, f"$\\frac{{{words}}}$", marked=True))
    bars = drawn(bar_chart([words], {words: {words: Sample((1.0,))}}, f"<{words}>", words))
    known = {"svg", "title", "desc", "path", "circle", "text"}
    assert {one.tag for picture in (root, bars) for one in picture.iter()} <= known
    assert all(set(one.attrib).isdisjoint({"id", "style", "href"}) for one in [*root.iter(), *bars.iter()])


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show() -> None:
    curve = Curve.of("a", {1.0: [10.0], 2.0: [0.0], 3.0: [1000.0]})
    assert len(points(drawn(line_chart([curve], "t", "x", "y", logarithmic_y=True)), "line")) == 2


def test_bars_are_as_long_as_their_numbers() -> None:
    series = {"a": {"fog": Sample((20.0, 40.0)), "snow": Sample((60.0,))}, "b": {"fog": Sample((15.0,))}}
    root = drawn(bar_chart(["fog", "snow"], series, "t", "accuracy"))
    bars = shapes(root, "bar")
    lengths = [max(x for x, _ in corners(bar)) - min(x for x, _ in corners(bar)) for bar in bars]
    assert lengths == [
        pytest.approx(lengths[1] * 2, abs=0.2),
        lengths[1],
        pytest.approx(lengths[1] * 4, abs=0.4),
    ]
    assert [one.findtext("title") for one in bars] == ["a, fog: 30", "b, fog: 15", "a, snow: 60"]


@pytest.mark.parametrize("series", [{}, {"a": {}}, {"a": {"fog": Sample((0.0,))}}])
def test_bars_without_numbers(series: dict[str, dict[str, Sample]]) -> None:
    root = drawn(bar_chart(["fog"], series, "t", "accuracy"))
    assert not [one for one in root.iter() if "NaN" in str(one.attrib) or "nan" in str(one.attrib)]


def test_reliability() -> None:
    bins = [Bin(0.0, 0.5, 0, 0.0, 0.0), Bin(0.5, 0.8, 1, 0.7, 0.5), Bin(0.8, 1.0, 3, 0.9, 0.9)]
    assert expected_error(bins) == pytest.approx(0.05)
    root = drawn(reliability_chart(bins, "t"))
    assert "0.50 to 0.80) is overconfident by 0.200" in (root.get("aria-label") or "")
    assert len(shapes(root, "bar")) == 2
    assert "No images" in (drawn(reliability_chart(bins[:1], "t")).get("aria-label") or "")


@quickly
@given(st.none() | FINITE, st.none() | FINITE, st.none() | FINITE)
def test_an_interval_is_drawn_with_what_is_known(
    mean: float | None, half: float | None, published: float | None
) -> None:
    low = None if mean is None or half is None else mean - abs(half)
    high = None if mean is None or half is None else mean + abs(half)
    found = IntervalStrip.of(mean, low, high, published, "holds")
    root = drawn(templates().get_template("part.html.j2").module.strip(found))  # type: ignore[attr-defined]
    dots = [float(one.get("cx") or -1) for one in root.iter() if one.tag == "circle"]
    assert len(dots) == (mean is not None)
    assert all(0 <= x <= 150 for x in dots)
