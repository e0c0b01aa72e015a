"""Matplotlib figures as inline SVG, coloured by the style sheet: one for light and dark, with its caption."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from markupsafe import Markup

from geq.errors import MissingExtraError
from geq.number_format import Real
from geq.safe_parsing import printable

if TYPE_CHECKING:
    from matplotlib.axis import Axis


SETTINGS: Any = {"svg.fonttype": "none", "text.usetex": False, "text.parse_math": False, "font.size": 12}
"""Text stays text, and nothing in it is a formula: labels may come from untrusted records."""
SHAPES = {
    "path": Markup('<path class="{kind}" d="{d}">{title}</path>'),
    "use": Markup('<circle class="{kind}" cx="{x}" cy="{y}" r="4">{title}</circle>'),
    "text": Markup('<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}"{turn}>{text}</text>'),
}
PICTURE = Markup(
    '<svg viewBox="0 0 {width} {height}" role="img" aria-label="{words}" class="chart">'
    "<title>{title}</title><desc>{description}</desc>{shapes}</svg>"
)


class Drawing:
    """One pair of axes with a frame of given margins.

    Attributes:
        axes: Axes of matplotlib. Artists without a class are not part of the picture.

    Args:
        width, height: Size in pixels, where letters are 12 pixels high.
        left, right, top, bottom: Margins in pixels.
        grid: Direction whose grid lines are drawn.
    """

    def __init__(
        self,
        width: Real = 440,
        height: Real = 280,
        left: Real = 56,
        right: Real = 14,
        top: Real = 12,
        bottom: Real = 44,
        grid: Literal["x", "y"] = "y",
    ) -> None:
        from matplotlib.figure import Figure

        self.size = (width, height)
        self.figure = Figure((width / 72, height / 72), dpi=72)
        inside = (left, bottom, width - left - right, height - top - bottom)
        whole = (width, height, width, height)
        share = tuple(part / of for part, of in zip(inside, whole, strict=True))
        self.axes: Any = self.figure.add_axes(share)  # type: ignore[arg-type]
        self.axes.spines[:].set_visible(False)
        self.axes.tick_params(length=0, pad=6)
        self.axes.yaxis.set_label_coords((13 - left) / inside[2], 0.5)
        self.axes.grid(axis=grid)
        self.axes.set_axisbelow(True)
        self.marked: dict[str, tuple[str, str]] = {}

    def add(self, artists: Iterable[Any], kind: str, title: str = "") -> None:
        """Give artists a class, and words that appear where the mouse is."""
        for artist in artists:
            name = f"mark-{len(self.marked)}"
            artist.set_gid(name)
            self.marked[name] = (kind, title)

    def far_apart(self, values: list[float], pixels: Real = 26) -> list[float]:
        """Return those of the rising values of x whose labels do not touch."""
        kept: list[float] = []
        places = self.axes.transData.transform([(value, self.axes.get_ylim()[0]) for value in values])[:, 0]
        last = -pixels
        for value, place in zip(values, places, strict=True):
            if place >= last + pixels:
                kept.append(value)
                last = place
        return kept

    def show_spine(self, side: str) -> None:
        self.axes.spines[side].set_visible(True)
        self.add([self.axes.spines[side]], "axis")

    def label(self, across: str, up: str) -> None:
        self.axes.set_xlabel(printable(across))
        self.axes.set_ylabel(printable(up), rotation_mode="anchor")

    def svg(self, title: str, description: str) -> Markup:
        """Return the ``svg`` element with its alternative text."""
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        file = io.StringIO()
        FigureCanvasSVG(self.figure).print_svg(file, metadata={"Date": None})
        shapes = Markup("").join(self._shapes(ElementTree.fromstring(file.getvalue()), None))
        width, height = (rounded(side) for side in self.size)
        title, description = printable(title), printable(description)
        return PICTURE.format(
            width=width, height=height, title=title, description=description, shapes=shapes,
            words=f"{title}. {description}",
        )  # fmt: skip

    def _shapes(self, element: ElementTree.Element, kind: str | None, title: str = "") -> Iterator[Markup]:
        """Yield the paths, marks and words of an element; styles, identifiers and metadata are left out."""
        name, tag = element.get("id", ""), element.tag.rpartition("}")[2]
        if tag in ("defs", "metadata"):
            return
        if name in self.marked:
            kind, title = self.marked[name]
        elif name.startswith("matplotlib.axis"):
            kind = "label"
        elif name.startswith(("xtick", "ytick")):
            kind = "tick"
        if kind is not None and tag in SHAPES:
            turn = element.get("transform", "")
            anchor = re.search(r"text-anchor: (\w+)", element.get("style", ""))
            yield SHAPES[tag].format(
                kind="grid" if kind == "tick" and tag == "path" else kind,
                d=rounded(element.get("d", "")),
                x=rounded(element.get("x", "")),
                y=rounded(element.get("y", "")),
                title=Markup("<title>{}</title>").format(printable(title)) if title else "",
                anchor=anchor[1] if anchor else "start",
                turn=Markup(' transform="{}"').format(rounded(turn)) if "rotate(-90" in turn else "",
                text=element.text or "",
            )
        for child in element:
            yield from self._shapes(child, kind, title)


def rounded(coordinates: object) -> str:
    """Coordinates with one digit after the point: the same bytes on every machine.

    >>> rounded("M 3.14159 -0.001 L 1e-05 280"), rounded(440.0)
    ('M3.1 0L0 280', '440')
    """
    text = re.sub(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", lambda found: f"{float(found[0]):.1f}", str(coordinates))
    text = re.sub(r"-?(\d+)\.0\b", lambda found: found[0].removesuffix(".0"), text).replace("-0 ", "0 ")
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", " ".join(text.split())) if text.startswith("M") else text


@contextmanager
def drawing(**frame: Any) -> Iterator[Drawing]:
    """Draw with our own settings instead of the user's."""
    try:
        import matplotlib
    except ImportError as problem:
        raise MissingExtraError.naming("matplotlib", "train", "the charts of geq report") from problem
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        # A letter that matplotlib's own font lacks is drawn by the browser's.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield Drawing(**frame)


def place_ticks(axis: Axis, at: list[float] | None = None, whole: bool = False) -> None:
    """Put ticks at round numbers, or ``at`` given ones.

    Args:
        axis: One axis of a drawing.
        at: Values to mark.
        whole: Mark integers only.
    """
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    if at is not None:
        axis.set_major_locator(FixedLocator(at))
    elif axis.get_scale() == "log":
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,)))
    else:
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=whole))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:.6g}"))


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
