"""What a run on disk must be: every file whole at any moment, and in the end the same as undisturbed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from geq.errors import GeqError
from geq.training.checkpoint import Checkpoint
from geq.training.run import CONFIG, RunFolder
from stress.fault.child import Child, geq

TINY = {
    "model": "geq_tiny",
    "train_size": "192",
    "batch_size": "32",
    "epochs": "3",
    "checkpoint_steps": "1",
    "picture": "false",
    "threads": "1",
}
"""A training of eighteen steps."""


def options(**changes: str | Path | int) -> list[str]:
    """As arguments of ``geq train``."""
    return [f"--{name}={value}" for name, value in {**TINY, **changes}.items()]


def half_written(path: Path) -> list[str]:
    """What is not whole in the folder of a run that was just killed."""
    if not (path / CONFIG).exists():
        return []
    folder = RunFolder(path)
    problems = []
    for read in (folder.options, folder.data, folder.environment, folder.log):
        try:
            read()
        except GeqError as problem:
            problems.append(str(problem))
    if folder.checkpoint.exists():
        try:
            Checkpoint.load(folder.checkpoint)
        except GeqError as problem:
            problems.append(str(problem))
    return problems


def differences(run: Path, whole: Path) -> list[str]:
    """In what a finished run differs from the undisturbed one, but for times."""
    ours, theirs = RunFolder(run), RunFolder(whole)
    found = [
        name
        for name in ("model.safetensors", "config.json")
        if (ours.model / name).read_bytes() != (theirs.model / name).read_bytes()
    ]
    if [timeless(line) for line in ours.log()] != [timeless(line) for line in theirs.log()]:
        found.append("log.jsonl")
    left, right = Checkpoint.load(ours.checkpoint), Checkpoint.load(theirs.checkpoint)
    found += [f"last.ckpt: {name}" for name in vars(left) if not same(vars(left)[name], vars(right)[name])]
    found += [f"left over: {path.name}" for path in run.rglob(".*.tmp")]
    return found


def resumed(run: Path, whole: Path, *work: str) -> list[str]:
    """What is wrong with an interrupted run, its continuation, or the result of that."""
    found = half_written(run)
    told = work or ("--resume", str(run))
    found += Child(geq("train", *told, "--quiet"), run.parent / "log.txt").wait().failure
    return found or differences(run, whole)


def timeless(record: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in record.items() if "seconds" not in str(key)}


def same(one: Any, other: Any) -> bool:
    """Bit for bit, but for times."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        one, other = timeless(one), timeless(other)
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
