"""Trainings whose process, rank or clock fails: resumed, they end with the same bits."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from geq.training.run_folder import CONFIG
from stress.fault import trial
from stress.fault.child import CLEAR, Child, dying, geq
from stress.fault.trial import (
    Kills,
    Trials,
    TrialScale,
    await_true,
    differences,
    half_written,
    options,
    whole_run,
)
from stress.stress_parts import StressRow

ARMS: dict[str, dict[str, str]] = {
    "equilibrium": {"train_size": "96"},
    "averaged": {"model": "dnn_tiny", "ema": "0.9", "picture": "true", "epochs": "4"},
    "early stop": {"model": "dnn_tiny", "early_stop": "2", "validation": "0.2", "epochs": "4"},
    "optimiser adam": {"model": "opteq_tiny", "optimizer": "adamw", "learning_rate": "0.001"},
}
MOST = 400
"""Children after which a run that does not end is given up."""
LONGEST = 90.0
"""Seconds within which the other rank must have ended."""
YEARS = 30 * 365 * 86400.0


def training(scale: TrialScale) -> Iterator[StressRow]:
    """Kill ``geq train`` at random moments and resume it each time, until it ends."""
    for arm in list(ARMS)[: scale.pick(1, len(ARMS))]:
        yield killed_arm(scale, arm, scale.pick(3, 8))


def killed_arm(scale: TrialScale, arm: str, kills: int) -> StressRow:
    folder = scale.within(arm.replace(" ", "-"))
    given = options(**ARMS[arm], runs=folder)
    whole, undisturbed = whole_run(folder, given)
    run, chance = folder / "killed", scale.random(f"training {arm}")
    killing, others = Kills(kills), 0
    problems = killing.problems
    longest = max(0.15, 2.5 * undisturbed.seconds / kills)
    for number in range(MOST):
        work = ["--resume", run] if (run / CONFIG).exists() else [*given, "--name=killed"]
        if killing.number < kills and number % 3 == 2:  # between two operations on files
            ended = trial.training(folder, *work, before=dying(chance.randrange(12), run)).wait()
        elif killing.number < kills:
            ended = trial.training(folder, *work).kill_after(chance.uniform(0.02, longest))
        else:
            ended = trial.training(folder, *work).wait()
        problems += half_written(run)
        if ended.killed:
            killing.number += 1
        elif ended.code == 0:
            break
        else:
            problems += ended.failure
            others += 1
            if others > 3:
                break
    problems += differences(run, whole)
    if "picture" in ARMS[arm] and not (run / "picture.png").exists():
        problems.append("no picture")
    return killing.row(
        f"training killed and resumed ({arm})",
        "weights, log and checkpoint have the bits of the undisturbed run; every file whole after each kill",
        undisturbed_seconds=round(undisturbed.seconds, 2),
    )


def rank(scale: TrialScale) -> Iterator[StressRow]:
    """Kill one of two processes that train together: the other says so and ends, and the run resumes."""
    folder = scale.within("run")
    given = [
        *options(runs=folder, model="dnn_tiny", epochs=20, accelerator="cpu", devices=2),
        *("--batch_size=32", "--strategy=ddp"),
    ]
    if start(folder, *given, "--name=whole").wait() != 0:
        raise RuntimeError(f"undisturbed: {said(folder)}")
    trials, waited = Trials("one of two processes (DDP) killed", ""), list[float]()
    for victim in (1,) if scale.short else (1, 0):
        run = folder / f"rank{victim}"
        found = killed_rank(start(folder, *given, f"--name={run.name}"), victim, run, waited)
        found += half_written(run)
        if not found and start(folder, "--resume", str(run)).wait() != 0:
            found = [said(folder)]
        trials.add(found or differences(run, folder / "whole"))
    longest = max(waited, default=0)
    trials.good = f"the other said so and ended within {longest:.0f} s; the run resumed bit by bit"
    yield trials.row(seconds_until_the_other_ended=waited)


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start the real command: Fabric starts the second process by the same words."""
    command = [sys.executable, "-m", "geq.cli", "train", *words, "--quiet"]
    with (folder / "said.txt").open("wb") as file:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)


def said(folder: Path) -> str:
    return (folder / "said.txt").read_text(errors="replace")[-1500:]


def killed_rank(process: subprocess.Popen[bytes], victim: int, run: Path, waited: list[float]) -> list[str]:
    """Kill one of the two after the first checkpoint, and report what was wrong with the end of the other."""
    await_true(lambda: (run / "last.ckpt").exists() or process.poll() is not None, 400)
    if process.poll() is not None or not (run / "last.ckpt").exists():
        process.kill()
        return [f"no checkpoint was written: {said(run.parent)}"]
    first = psutil.Process(process.pid)
    (second,) = first.children()
    (second if victim else first).kill()
    other, begun = (first if victim else second), time.monotonic()
    while other.is_running() and other.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() - begun > LONGEST:
            other.kill()
            process.wait()
            return [f"the other did not end within {LONGEST:.0f} s: {said(run.parent)}"]
        process.poll()
        time.sleep(0.05)
    waited.append(round(time.monotonic() - begun, 1))
    code, words = process.wait(), said(run.parent)
    # The first process notices at the next exchange, or is ended by who started the other, after its word.
    ways = ("another process of this training has ended", "process 1 of this training ended")
    told = any(way in words for way in ways)
    if not told or "--resume" not in words or (victim and code not in (CLEAR, -signal.SIGKILL)):
        return [f"not clear (code {code}): {words}"]
    return []


def clock(scale: TrialScale) -> Iterator[StressRow]:
    """Train by a clock that jumps by decades, back and forth, between any two looks at it."""
    folder = scale.within("run")
    given = options(runs=folder, model="dnn_tiny")
    whole, _ = whole_run(folder, given)
    trials = Trials(
        "clock that jumps by decades",
        "trained, killed, resumed and listed with such a clock and with files of the past and the future: "
        "the same bits",
    )
    for number in range(scale.pick(1, 3)):
        run, before = folder / f"jump{number}", jumps(scale.seed + number)
        words: list[str | Path] = [*given, f"--name={run.name}"]
        trial.training(folder, *words, before=before).kill_after(0.5)
        for place, path in enumerate(sorted(run.rglob("*"))):  # times of change that nobody can trust
            os.utime(path, (1.0, 1.0) if (place + number) % 2 else (4e9, 4e9))
        ended = trial.training(folder, *(["--resume", run] if run.exists() else words), before=before).wait()
        found = half_written(run) + ended.failure
        found = found or differences(run, whole)
        listed = Child(geq("runs", "--runs", folder, before=before), folder / "list.txt").wait()
        trials.add(found + listed.failure)
    yield trials.row()


def jumps(seed: int) -> Callable[[], None]:
    """Return a function that gives its process such a clock."""

    def begin() -> None:
        chance, real = random.Random(seed), time.time

        def jumping() -> float:
            return max(0.0, real() + chance.uniform(-YEARS, YEARS))

        time.time = jumping
        time.time_ns = lambda: int(jumping() * 1e9)

    return begin
