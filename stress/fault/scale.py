"""How much of it: the short form of minutes, or the long one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Scale:
    """
    Args:
        short: minutes instead of a quarter of an hour.
        seed: of the moments.
        folder: of this kind of fault, empty.
    """

    short: bool
    seed: int
    folder: Path

    def pick(self, short: int, long: int) -> int:
        return short if self.short else long

    def random(self, what: str) -> random.Random:
        """Its own stream for each thing that is attacked."""
        return random.Random(f"{self.seed}/{what}")

    def within(self, name: str) -> Path:
        path = self.folder / name
        path.mkdir(parents=True)
        return path
