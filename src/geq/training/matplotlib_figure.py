"""Figures of matplotlib that need no screen, and their PNG files."""

from __future__ import annotations

import io
from typing import Any

from geq.errors import MissingExtraError


def new_figure(width: float, height: float, purpose: str = "a picture", extra: str = "train") -> Any:
    """Return an empty figure of the given size in inches.

    Args:
        width, height: In inches.
        purpose: What needs matplotlib, for the error where it is missing.
        extra: The extra of geq that installs it.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise MissingExtraError.naming("matplotlib", extra, purpose) from problem
    return Figure(figsize=(width, height), layout="constrained")


def png(figure: Any) -> bytes:
    """Return the figure as a file: the same figure always gives the same bytes, without date and version."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()
