"""All of it, in order."""

from __future__ import annotations

from collections.abc import Iterator

from stress.number import derivative, edited, kernel, network, size, start, window
from stress.part import Row


def run(short: bool, seed: int) -> Iterator[Row]:
    for family in (size, start, edited, window, derivative, kernel, network):
        yield from family.run(short, seed)
