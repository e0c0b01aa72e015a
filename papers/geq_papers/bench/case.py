"""Case of the benchmark: a name, a sentence, and a function that measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from geq_papers.bench.timing import Ratio


class Skip(Exception):
    """Raised by a case that cannot run here; its text says why."""


@dataclass(frozen=True)
class BenchSetting:
    """Effort of a measurement."""

    quick: bool = False
    threads: int = 1

    @property
    def repeats(self) -> int:
        return 3 if self.quick else 9


@dataclass(frozen=True)
class CaseResult:
    """One ratio, and what it should be.

    Args:
        what: what is compared, such as "b32: training step, 10 evaluations".
        ratio: its value with spread.
        unit: how to read it: "× faster", "× the time of …".
        at_least, at_most: the target, where there is one.
    """

    what: str
    ratio: Ratio
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool | None:
        """Return whether the median meets the target; None without one."""
        if self.at_least is None and self.at_most is None:
            return None
        value = self.ratio.median
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )


@dataclass(frozen=True)
class BenchCase:
    """A group of findings that is measured in one process of its own."""

    name: str
    summary: str
    run: Callable[[BenchSetting], Iterator[CaseResult]]
