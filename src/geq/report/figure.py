"""A picture as it stands on the page: with a caption, a legend, and words for who does not see it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Literal

from geq.report.chart.axis import SERIES, line, rectangle
from geq.report.markup import EMPTY, Markup, element, identifier, join


@dataclass(frozen=True)
class Figure:
    """
    Args:
        title: short; in front of the caption.
        caption: what is drawn.
        picture: an ``svg`` or ``img`` element, which carries its own alternative text.
        legend: what the colours and dashes mean, if there are several.
        shape: "wide" over the whole width of the page, "tall" beside two others.
    """

    title: str
    caption: str
    picture: Markup
    legend: Markup = EMPTY
    shape: Literal["wide", "tall"] | None = None

    def html(self) -> Markup:
        words = element("figcaption", [element("strong", f"{self.title}."), " ", self.caption])
        attributes = {"class": self.shape, "id": f"figure-{identifier(self.title)}"}
        return element("figure", [self.picture, self.legend, words], attributes)


def gallery(figures: list[Figure]) -> Markup:
    """The figures beside each other, as far as the page is wide."""
    if not figures:
        return EMPTY
    return element("div", [figure.html() for figure in figures], {"class": "gallery"})


def embedded_png(content: bytes, alternative: str, kind: str | None = None) -> Markup:
    """A PNG that is part of the page, with a class for its style if ``kind`` is given."""
    encoded = base64.b64encode(content).decode("ascii")
    attributes = {"src": f"data:image/png;base64,{encoded}", "alt": alternative}
    return element("img", "", attributes if kind is None else {**attributes, "class": kind})


def legend(labels: list[str], filled: bool = False) -> Markup:
    """A swatch for each series, in the order of their colours; none where there is only one.

    Args:
        filled: as bars are, not as curves.
    """
    if len(labels) < 2:
        return EMPTY
    return element(
        "ul", [_entry(number, label, filled) for number, label in enumerate(labels)], {"class": "legend"}
    )


def _entry(number: int, label: str, filled: bool) -> Markup:
    kind = f"series-{number % SERIES}"
    swatch = element(
        "svg",
        rectangle(6, 0, 12, 12, f"bar {kind}") if filled else line(0, 6, 26, 6, f"line {kind}"),
        {"viewBox": "0 0 26 12", "width": 26, "height": 12, "aria-hidden": "true"},
    )
    return element("li", join([swatch, " ", label]))
