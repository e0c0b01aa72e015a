"""HTML elements, in which every text is escaped that is not markup already, and arrays as inline images."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from markupsafe import Markup
from markupsafe import escape as escaped
from PIL import Image
from torch import Tensor

from geq.analysis.saliency import stretched
from geq.errors import InputError
from geq.safe_parsing import printable

EMPTY = Markup("")
Content = str | Markup | Iterable["str | Markup"]


def escape(text: str) -> Markup:
    """
    >>> escape("<b>&")
    Markup('&lt;b&gt;&amp;')
    """
    return text if isinstance(text, Markup) else escaped(printable(text))


def join(content: Content, between: str = "") -> Markup:
    """Return the pieces one after the other."""
    pieces = [content] if isinstance(content, str) else content
    return escape(between).join(escape(piece) for piece in pieces)


def element(
    name: str, content: Content = "", attributes: Mapping[str, str | int | float | None] | None = None
) -> Markup:
    """Return ``<name attributes>content</name>``; an attribute that is None is left out.

    >>> element("a", "1 < 2", {"href": "#x", "title": None})
    Markup('<a href="#x">1 &lt; 2</a>')
    """
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9]*", name):
        raise InputError(f"an element needs a name of letters and digits: got {name!r}")
    given = {key: escape(str(value)) for key, value in (attributes or {}).items() if value is not None}
    written = Markup("").join(Markup(' {}="{}"').format(key, value) for key, value in given.items())
    return Markup("<{0}{1}>{2}</{0}>").format(name, written, join(content))


SMOOTH = 192
"""Side of a picture that is drawn smoothly, in pixels."""
VEIL = 0.65
"""Share of the colours in a map over an image."""


def drawn(pixels: UInt8[np.ndarray, "h w 3"], words: str, sharp: bool = True) -> Markup:
    """An ``img`` element; ``sharp`` shows each pixel as a square however large it is drawn."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG")
    address = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
    kind = "sharp" if sharp else "smooth"
    return Markup('<img src="{}" alt="{}" class="{}">').format(address, words, kind)


def coloured(
    values: Float[np.ndarray, "h w"], colours: str, low: float, high: float
) -> UInt8[np.ndarray, "h w 3"]:
    """Values from ``low`` to ``high`` in the colours of a map of matplotlib."""
    import matplotlib

    share = np.clip((values - low) / (high - low if high > low else 1.0), 0, 1)
    painted: Any = matplotlib.colormaps[colours](share)
    return np.round(255 * painted[..., :3]).astype(np.uint8)


def rgb(image: UInt8[Tensor, "1 c h w"]) -> UInt8[np.ndarray, "h w 3"]:
    pixels = image[0].permute(1, 2, 0).numpy()
    return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))


def over(
    image: UInt8[Tensor, "1 c h w"],
    values: Float[Tensor, "rows columns"],
    colours: str,
    low: float,
    high: float,
    sharp: bool,
) -> UInt8[np.ndarray, "side side 3"]:
    """A map in colours over the image in grey; ``sharp`` shows its places as squares."""
    side = SMOOTH
    grey = stretched(image.float().mean(1), side, side, "nearest")[0].numpy()
    mode = "nearest" if sharp else "bilinear"
    painted = coloured(stretched(values[None].float(), side, side, mode)[0].numpy(), colours, low, high)
    return np.round(VEIL * painted + (1 - VEIL) * grey[..., None]).astype(np.uint8)


def scale(colours: str, low: str, high: str) -> Markup:
    """The colours from ``low`` to ``high``, as a legend."""
    bar = coloured(np.linspace(0.0, 1.0, 64)[None], colours, 0.0, 1.0)
    parts = [
        element("span", low),
        drawn(bar, f"colours from {low} to {high}", sharp=False),
        element("span", high),
    ]
    return element("div", parts, {"class": "scale"})


def figure(content: Markup, title: str, note: str = "") -> Markup:
    """A picture with words below it."""
    words = [element("strong", title), *([" ", element("span", note)] if note else [])]
    return element("figure", [content, element("figcaption", words)])
