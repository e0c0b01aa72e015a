"""How much of it: the short form of minutes, or the long one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stress.fault.child import Child
from stress.part import Row


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


@dataclass
class Trials:
    """Cases of one kind of fault, and what went wrong in them."""

    what: str
    good: str
    """Note of the row."""
    tried: int = 0
    survived: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, problems: list[str]) -> None:
        self.tried += 1
        self.survived += not problems
        self.problems += problems

    def row(self, **detail: Any) -> Row:
        return Row(self.what, self.tried, self.survived, self.good, {**detail, "problems": self.problems[:5]})


@dataclass
class Kills:
    """Work that is killed and called again, until it was killed often enough and then ends."""

    wanted: int
    number: int = 0
    problems: list[str] = field(default_factory=list)

    def often(
        self,
        folder: Path,
        work: Callable[[Path, int | None], Callable[[], int]],
        moment: Callable[[], float],
        operation: Callable[[], int],
        broken: Callable[[Path], list[str]],
    ) -> Path:
        """Return the last place, where the work was finished.

        Args:
            folder: of all places.
            work: in a place, which ends itself before an operation on files if a number is given.
            moment: seconds until the next kill.
            operation: number of the operation before the next end.
            broken: what is not whole in a place.
        """
        place, log = folder / "killed", folder / "log.txt"
        for attempt in range(20 * self.wanted):
            enough = self.number >= self.wanted
            child = Child(work(place, operation() if attempt % 2 and not enough else None), log)
            ended = child.wait() if attempt % 2 or enough else child.kill_after(moment())
            self.problems += broken(place)
            if ended.killed:
                self.number += 1
                continue
            self.problems += ended.failure
            if enough:
                break
            place = folder / f"killed{attempt}"  # whole before it was killed often enough: another
        return place

    def row(self, what: str, good: str, **detail: Any) -> Row:
        """One problem fails all of them."""
        survived = 0 if self.problems else self.number
        return Row(what, self.number, survived, good, {**detail, "problems": self.problems[:5]})
