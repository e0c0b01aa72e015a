"""One of two processes that train together is killed: the other says so and ends, and the run resumes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from stress.fault.child import CLEAR
from stress.fault.run import differences, half_written, options
from stress.fault.scale import Scale, Trials
from stress.part import Row

LONGEST = 90.0
"""Seconds within which the other must have ended."""


def attack(scale: Scale) -> Iterator[Row]:
    folder = scale.within("run")
    given = [
        *options(runs=folder, model="dnn_tiny", epochs=20, accelerator="cpu", devices=2),
        *("--batch_size=32", "--strategy=ddp"),
    ]
    whole = folder / "whole"
    if start(folder, "train", *given, "--name=whole", "--quiet").wait() != 0:
        raise RuntimeError(f"undisturbed: {said(folder)}")
    trials = Trials("one of two processes (DDP) killed", "")
    waited: list[float] = []
    for victim in (1,) if scale.short else (1, 0):
        run = folder / f"rank{victim}"
        process = start(folder, "train", *given, f"--name={run.name}", "--quiet")
        found = killed(process, victim, run, folder, waited)
        found += half_written(run)
        if not found and start(folder, "train", "--resume", str(run), "--quiet").wait() != 0:
            found = [said(folder)]
        trials.add(found or differences(run, whole))
    trials.good = (
        f"the other said so and ended within {max(waited, default=0):.0f} s; the run resumed bit by bit"
    )
    yield trials.row(seconds_until_the_other_ended=waited)


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """The real command: Lightning starts the second process by the same words."""
    with (folder / "said.txt").open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "geq.cli", *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )


def said(folder: Path) -> str:
    return (folder / "said.txt").read_text(errors="replace")[-1500:]


def killed(
    process: subprocess.Popen[bytes], victim: int, run: Path, folder: Path, waited: list[float]
) -> list[str]:
    """Kill one of the two after the first checkpoint; what was wrong with the end of the other."""
    limit = time.monotonic() + 400
    while not (run / "last.ckpt").exists():
        if process.poll() is not None or time.monotonic() > limit:
            process.kill()
            return [f"no checkpoint was written: {said(folder)}"]
        time.sleep(0.01)
    first = psutil.Process(process.pid)
    (second,) = first.children()
    (second if victim else first).kill()
    other, begun = (first if victim else second), time.monotonic()
    while other.is_running() and other.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() - begun > LONGEST:
            other.kill()
            process.wait()
            return [f"the other did not end within {LONGEST:.0f} s: {said(folder)}"]
        process.poll()
        time.sleep(0.05)
    waited.append(round(time.monotonic() - begun, 1))
    code = process.wait()
    words = said(folder)
    # The first process notices at the next exchange, or is ended by who started the other, after its word.
    ways = ("another process of this training has ended", "process 1 of this training ended")
    told = any(way in words for way in ways)
    if not told or "--resume" not in words or (victim and code not in (CLEAR, -signal.SIGKILL)):
        return [f"not clear (code {code}): {words}"]
    return []
