"""Corruption: a function of one image, a strength and a random generator, with five strengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

Picture = Float[np.ndarray, "height width 3"]
"""One RGB image with values from 0 to 1."""


@dataclass(frozen=True)
class Corruption:
    """``apply(image, strengths[severity - 1], random)`` may leave 0..1; the caller clips."""

    name: str
    apply: Callable[[Any, Any, np.random.Generator], Any]
    strengths: tuple[Any, ...]
