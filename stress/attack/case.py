"""What a hostile case is, and how it is judged."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from geq.errors import GeqError

SECONDS, MEGABYTES = 20.0, 700
"""CPU time that a case may take, and memory that the process may grow by."""


@dataclass(frozen=True)
class Ground:
    """Where a case plays.

    Args:
        inside: the only folder that may be written.
        outside: a folder beside it, with a file that somebody needs.
        canary: a file that appears if something of the case was executed.
    """

    inside: Path
    outside: Path
    canary: Path

    @classmethod
    def below(cls, folder: Path) -> Ground:
        ground = cls(folder / "inside", folder / "outside", folder / "canary")
        ground.inside.mkdir()
        ground.outside.mkdir()
        (ground.outside / "precious.txt").write_text("precious")
        return ground

    def surroundings(self) -> dict[str, bytes | None]:
        """Everything that is not inside, with its content."""
        base = self.outside.parent
        paths = (path for path in base.rglob("*") if self.inside not in (path, *path.parents))
        return {str(path.relative_to(base)): path.read_bytes() if path.is_file() else None for path in paths}


@dataclass(frozen=True)
class Case:
    """A file and the command or function that is given it.

    Args:
        name: of the case.
        attack: makes the files and has them read; a :class:`~geq.errors.GeqError` is the right end.
        harmless: it may also end well, since nothing of it is dangerous.
    """

    name: str
    attack: Callable[[Ground], object]
    harmless: bool = False


def examine(case: Case, folder: Path) -> str | None:
    """What went wrong with a case, in an empty folder; None if nothing did."""
    ground = Ground.below(folder)
    before, memory, began = ground.surroundings(), peak(), time.process_time()
    try:
        case.attack(ground)
        if not case.harmless:
            return "it was not refused"
    except GeqError:
        pass
    except Exception as problem:
        return f"{type(problem).__name__} instead of a clear refusal: {problem}"
    if ground.canary.exists():
        return "it was executed"
    if ground.surroundings() != before:
        return "it changed something outside of its folder"
    if peak() - memory > MEGABYTES:
        return f"it took {peak() - memory:.0f} MB"
    if time.process_time() - began > SECONDS:
        return f"it took {time.process_time() - began:.0f} s"
    return None


def peak() -> float:
    """Most memory that this process had at any time, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
