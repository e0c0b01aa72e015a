"""Parts of the stress suite, and the rows that they yield."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parent / "record"
"""Records of the long form."""


@dataclass(frozen=True)
class StressRow:
    """One kind of attack: number of attempts, and of those in which geq did what it must."""

    what: str
    tried: int
    survived: int
    note: str = ""
    detail: dict[str, Any] = field(default_factory=dict)
    """Statistics, latencies and samples, for the record only."""
    seconds: float | None = None
    """Time of this row alone; None: since the row before."""

    @property
    def held(self) -> bool:
        return self.tried > 0 and self.survived == self.tried


@dataclass(frozen=True)
class StressPart:
    """``module.run(short, seed)`` yields the rows as they come."""

    module: str
    summary: str

    def load(self) -> Callable[[bool, int], Iterator[StressRow]]:
        run: Callable[[bool, int], Iterator[StressRow]] = import_module(self.module).run
        return run


PARTS: dict[str, StressPart] = {
    "fuzz": StressPart("stress.fuzz.campaign", "readers of outside data, fed with mutated files"),
    "hostile": StressPart("stress.hostile", "files that want to execute, escape or explode"),
    "fault": StressPart("stress.fault.campaign", "kills, full disks, lost folders, dead processes"),
    "number": StressPart("stress.number", "inputs and layers at the limits of arithmetic"),
    "problem": StressPart(
        "stress.random_problems", "random fixed-point problems: what the solvers say of them"
    ),
    "load": StressPart("stress.load", "many people on the demo at once, and malformed requests"),
    "soak": StressPart("stress.soak", "a long training: does its memory grow?"),
}


def peak() -> float:
    """Return the most memory that this process had at any time, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
