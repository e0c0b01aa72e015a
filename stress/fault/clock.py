"""A clock that jumps by years, back and forth, between any two looks at it."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stress.fault.child import Child, done, geq
from stress.fault.run import differences, half_written, options
from stress.fault.scale import Scale, Trials
from stress.part import Row

YEARS = 30 * 365 * 86400.0


def attack(scale: Scale) -> Iterator[Row]:
    folder = scale.within("run")
    given = options(runs=folder, model="dnn_tiny")
    done(geq("train", *given, "--name=whole", "--quiet"), folder / "whole.txt")
    trials = Trials(
        "clock that jumps by decades",
        "trained, killed, resumed and listed with such a clock and with files of the past and the future: "
        "the same bits",
    )
    for number in range(scale.pick(1, 3)):
        name = f"jump{number}"
        before = jumps(scale.seed + number)
        first = Child(geq("train", *given, f"--name={name}", "--quiet", before=before), folder / "log.txt")
        first.kill_after(0.5)
        old_files(folder / name, number)
        work = ["--resume", str(folder / name)] if (folder / name).exists() else [*given, f"--name={name}"]
        ended = Child(geq("train", *work, "--quiet", before=before), folder / "log.txt").wait()
        found = half_written(folder / name) + ended.failure
        found = found or differences(folder / name, folder / "whole")
        listed = Child(geq("runs", "--runs", folder, before=before), folder / "list.txt").wait()
        trials.add(found + listed.failure)
    yield trials.row()


def jumps(seed: int) -> Callable[[], None]:
    """What to do in the child, so that it sees such a clock."""

    def begin() -> None:
        chance, real = random.Random(seed), time.time

        def jumping() -> float:
            return max(0.0, real() + chance.uniform(-YEARS, YEARS))

        time.time = jumping
        time.time_ns = lambda: int(jumping() * 1e9)

    return begin


def old_files(folder: Path, number: int) -> None:
    """Times of change that nobody can trust."""
    for place, path in enumerate(sorted(folder.rglob("*"))):
        moment = 1.0 if (place + number) % 2 else 4e9
        os.utime(path, (moment, moment))
