"""Arrays as pictures inside a page: each is a PNG in its own address, so that nothing has to be fetched."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from geq.analysis.saliency import stretched
from geq_demo.markup import Markup, element

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
