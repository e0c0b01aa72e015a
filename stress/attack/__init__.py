"""Hostile cases: a file, the command or function that reads it, and how its end is judged."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from geq.data.dataset import Statistics
from geq.errors import GeqError
from geq.training.setup import DataDescription
from stress.stress_parts import peak

SECONDS, MEGABYTES = 20.0, 700
"""CPU time that a case may take, and memory that the process may grow by."""
DIGITS = DataDescription("digits", tuple("0123456789"), Statistics((0.5,), (0.5,)), (1, 8, 8))


@dataclass(frozen=True)
class Ground:
    """Folders of a case.

    Args:
        inside: The only folder that may be written.
        outside: A folder beside it, with a file that somebody needs.
        canary: A file that appears if something of the case was executed.
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
        """Return everything that is not inside, with its content."""
        base = self.outside.parent
        paths = (path for path in base.rglob("*") if self.inside not in (path, *path.parents))
        return {str(path.relative_to(base)): path.read_bytes() if path.is_file() else None for path in paths}


Attack = Callable[[Ground], object]


@dataclass(frozen=True)
class HostileCase:
    """An attack makes files and has them read: a :class:`~geq.errors.GeqError` is the right end.

    A harmless one may also end well, since nothing of it is dangerous.
    """

    name: str
    attack: Attack
    harmless: bool = False


def examine(case: HostileCase, folder: Path) -> str | None:
    """Return what went wrong with a case, in an empty folder; None if nothing did."""
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


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def reading(name: str, content: bytes | Callable[[Ground], bytes], read: Callable[[Path], object]) -> Attack:
    """Return an attack that writes one file inside and has it read."""

    def attack(ground: Ground) -> None:
        read(written(ground.inside / name, content if isinstance(content, bytes) else content(ground)))

    return attack
