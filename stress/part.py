"""What every part of the stress suite is: a name, what it attacks, rows of what was tried and survived."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parent / "record"
"""Of the long form."""


@dataclass(frozen=True)
class Row:
    """One kind of attack: how often it was tried, and how often geq did what it must."""

    what: str
    tried: int
    survived: int
    note: str = ""
    detail: dict[str, Any] = field(default_factory=dict)
    """Goes into the record, not into the table: statistics, latencies, samples."""
    seconds: float | None = None
    """Of this row alone; None: since the row before."""

    @property
    def held(self) -> bool:
        return self.tried > 0 and self.survived == self.tried


@dataclass(frozen=True)
class Part:
    """``module.run(short, seed)`` yields the rows as they come."""

    module: str
    summary: str

    def load(self) -> Callable[[bool, int], Iterator[Row]]:
        run: Callable[[bool, int], Iterator[Row]] = import_module(self.module).run
        return run


PARTS: dict[str, Part] = {
    "fuzz": Part("stress.fuzz.campaign", "readers of outside data, fed with mutated files"),
    "hostile": Part("stress.hostile", "files that want to execute, escape or explode"),
    "fault": Part("stress.fault.campaign", "kills, full disks, lost folders, dead workers"),
    "number": Part("stress.number.campaign", "inputs and layers at the limits of arithmetic"),
    "problem": Part("stress.problem", "random fixed-point problems: what the solvers say of them"),
    "load": Part("stress.load", "many people on the demo at once, and malformed requests"),
    "soak": Part("stress.soak", "a long training: does its memory grow?"),
}
