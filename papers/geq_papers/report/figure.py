"""Picture of the page with a caption, a legend, and a text alternative."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup


@dataclass(frozen=True)
class Figure:
    """
    Args:
        title: Short; in front of the caption.
        caption: What is drawn.
        picture: ``svg`` or ``img`` element, which carries its own alternative text.
        legend: Labels of the series, in the order of their colours.
        swatch: Class of a series in the legend, as a curve or a bar.
        shape: "wide" over the whole width of the page, "tall" beside two others.
    """

    title: str
    caption: str
    picture: Markup
    legend: tuple[str, ...] = ()
    swatch: Literal["line", "bar"] = "line"
    shape: Literal["wide", "tall"] | None = None


def embedded_png(content: bytes, alternative: str) -> Markup:
    """Return a PNG that is part of the page."""
    address = f"data:image/png;base64,{base64.b64encode(content).decode('ascii')}"
    return Markup('<img src="{}" alt="{}">').format(address, alternative)
