"""Scale of an attack, its trials, and what a run on disk must be."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from geq.errors import GeqError
from geq.training.checkpoint import Checkpoint
from geq.training.run_folder import CONFIG, RunFolder
from stress.fault.child import Child, End, done, geq
from stress.stress_parts import StressRow

TINY: dict[str, str | Path | int] = {
    "model": "geq_tiny",
    "train_size": 192,
    "batch_size": 32,
    "epochs": 3,
    "checkpoint_steps": 1,
    "picture": "false",
    "threads": 1,
}
"""A training of eighteen steps."""


@dataclass(frozen=True)
class TrialScale:
    """Form, seed and empty folder of an attack."""

    short: bool
    seed: int
    folder: Path

    def pick(self, short: int, long: int) -> int:
        return short if self.short else long

    def random(self, what: str) -> random.Random:
        """Return the random numbers of one thing that is attacked."""
        return random.Random(f"{self.seed}/{what}")

    def within(self, name: str) -> Path:
        path = self.folder / name
        path.mkdir(parents=True)
        return path


@dataclass
class Trials:
    """Cases of one kind of fault with the note of their row, and what went wrong in them."""

    what: str
    good: str
    tried: int = 0
    survived: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, problems: list[str]) -> None:
        self.tried += 1
        self.survived += not problems
        self.problems += problems

    def row(self, **detail: Any) -> StressRow:
        return StressRow(
            self.what, self.tried, self.survived, self.good, {**detail, "problems": self.problems[:5]}
        )


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
            folder: Parent of all places.
            work: Work in a place; it ends itself before an operation on files if a number is given.
            moment: Seconds until the next kill.
            operation: Number of the operation before the next end.
            broken: Reports what is not whole in a place.
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

    def row(self, what: str, good: str, **detail: Any) -> StressRow:
        """One problem fails all of them."""
        survived = 0 if self.problems else self.number
        return StressRow(what, self.number, survived, good, {**detail, "problems": self.problems[:5]})


def options(**changes: str | Path | int) -> list[str]:
    """Return a tiny training as arguments of ``geq train``."""
    return [f"--{name}={value}" for name, value in {**TINY, **changes}.items()]


def training(folder: Path, *words: str | Path, before: Callable[[], object] | None = None) -> Child:
    """Start ``geq train`` with these words."""
    return Child(geq("train", *words, "--quiet", before=before), folder / "log.txt")


def whole_run(folder: Path, given: list[str], name: str = "whole") -> tuple[Path, End]:
    """Train undisturbed."""
    return folder / name, done(geq("train", *given, f"--name={name}", "--quiet"), folder / "whole.txt")


def await_true(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    """Wait until the condition holds, and return whether it did in time."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if condition():
            return True
        time.sleep(0.002)
    return False


def half_written(path: Path) -> list[str]:
    """Report what is not whole in the folder of a run that was just killed."""
    if not (path / CONFIG).exists():
        return []
    folder, problems = RunFolder(path), []
    reads: list[Callable[[], object]] = [folder.options, folder.data, folder.environment, folder.log]
    if folder.checkpoint.exists():
        reads.append(lambda: Checkpoint.load(folder.checkpoint))
    for read in reads:
        try:
            read()
        except GeqError as problem:
            problems.append(str(problem))
    return problems


def differences(run: Path, whole: Path) -> list[str]:
    """Report in what a finished run differs from the undisturbed one, but for times."""
    ours, theirs = RunFolder(run), RunFolder(whole)
    found = [
        name
        for name in ("model.safetensors", "config.json")
        if (ours.model / name).read_bytes() != (theirs.model / name).read_bytes()
    ]
    found += [] if same(ours.log(), theirs.log()) else ["log.jsonl"]
    left, right = Checkpoint.load(ours.checkpoint), Checkpoint.load(theirs.checkpoint)
    found += [f"last.ckpt: {name}" for name in vars(left) if not same(vars(left)[name], vars(right)[name])]
    return found + [f"left over: {path.name}" for path in run.rglob(".*.tmp")]


def resumed(run: Path, whole: Path, *work: str) -> list[str]:
    """Report what is wrong with an interrupted run, its continuation, or the result of that."""
    found = half_written(run) + training(run.parent, *(work or ("--resume", run))).wait().failure
    return found or differences(run, whole)


def timeless(record: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in record.items() if "seconds" not in str(key)}


def same(one: Any, other: Any) -> bool:
    """Compare bit for bit, but for times."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        one, other = timeless(one), timeless(other)
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
