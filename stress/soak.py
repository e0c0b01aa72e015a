"""A long training, whose memory must stay flat.

The memory of its processes is measured from the end of the first epoch on. The slope is fitted after the
first tenth of that, in which caches fill. After some hours the training is interrupted, as with Ctrl-C.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from stress.stress_parts import StressRow

SHORT = ["--preset", "quick", "--epochs", "12", "--threads", "1", "--picture", "false"]
LONG = ["--preset", "ship/geq_cifar10", "--threads", "1", "--picture", "false"]
HOURS = 2.1
"""Hours after which the long form is interrupted."""
INTERRUPTED = 130
LIMIT = 20.0
"""MB per hour that may be noise of the allocator, or pages that the evaluation touches late."""

ONCE = 30.0
"""MB that an allocator may take at any time and keep: in a run of seconds a few of them are a steep slope."""


def run(short: bool, seed: int) -> Iterator[StressRow]:
    with tempfile.TemporaryDirectory() as folder:
        yield soak(SHORT if short else LONG, Path(folder), every=0.5 if short else 10.0, seed=seed)


def soak(options: list[str], runs: Path, every: float, seed: int = 0, most: float = HOURS) -> StressRow:
    """Run ``geq train`` with these options, and measure its memory."""
    command = [sys.executable, "-m", "geq.cli", "train", *options, "--seed", str(seed), "--runs", str(runs)]
    begun = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=heed_interrupts
    )
    seconds, megabytes, interrupted = [], [], False
    while process.poll() is None:
        if not interrupted and time.monotonic() - begun > 3600 * most:
            process.send_signal(signal.SIGINT)
            interrupted = True
        held = resident(process.pid)
        if held and any(runs.glob("*/log.jsonl")):
            seconds.append(time.monotonic() - begun)
            megabytes.append(held / 1e6)
        time.sleep(every)
    said = process.communicate()[0]
    slope, margin = growth(seconds, megabytes)
    hours = (time.monotonic() - begun) / 3600
    watched, most_held = (seconds[-1] - seconds[0], max(megabytes)) if seconds else (0.0, 0.0)
    ended = process.returncode in ((0, INTERRUPTED) if interrupted else (0,))
    flat = ended and (slope - margin < LIMIT or slope * watched / 3600 < ONCE)
    return StressRow(
        "training, memory over time",
        tried=1,
        survived=int(flat),
        note=f"{hours:.2f} h, {most_held:.0f} MB at most, slope {slope:+.1f} ± {margin:.1f} MB/h",
        detail={
            "command": " ".join(["geq", "train", *options, "--seed", str(seed)]),
            "hours": hours,
            **curve(seconds, megabytes, slope, margin),
            "end": said.splitlines()[-6:],
        },
    )


def heed_interrupts() -> None:
    """Let a child of a shell in the background heed Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def resident(identifier: int) -> int:
    """Return the bytes that the process and its children hold; 0 if they have just ended."""
    try:
        process = psutil.Process(identifier)
        family = [process, *process.children(recursive=True)]
        return sum(member.memory_info().rss for member in family)
    except psutil.NoSuchProcess:
        return 0


def growth(seconds: list[float], megabytes: list[float]) -> tuple[float, float]:
    """Return the slope in MB per hour after the first tenth, and the half width of its 95 % interval.

    Neighbouring samples are nearly the same number, so they are averaged in twenty blocks first.
    """
    if not seconds:
        return float("nan"), float("nan")
    late = [(t / 3600, m) for t, m in zip(seconds, megabytes, strict=True) if t >= 0.1 * seconds[-1]]
    blocks = [block.mean(axis=0) for block in np.array_split(np.array(late), 20) if len(block)]
    if len(blocks) < 5:
        return float("nan"), float("nan")
    hours, held = np.array(blocks).T
    spread = ((hours - hours.mean()) ** 2).sum()
    slope = ((hours - hours.mean()) * (held - held.mean())).sum() / spread
    left = held - held.mean() - slope * (hours - hours.mean())
    error = np.sqrt((left**2).sum() / (len(blocks) - 2) / spread)
    return float(slope), float(2.1 * error)  # Student's t for 18 degrees of freedom


def curve(seconds: list[float], megabytes: list[float], slope: float, margin: float) -> dict[str, Any]:
    """Return the memory over time for a record, with at most 300 samples."""
    step = max(1, -(-len(seconds) // 300))
    return {
        "megabytes": [round(value, 1) for value in megabytes[::step]],
        "seconds": [round(value, 1) for value in seconds[::step]],
        "slope_megabytes_per_hour": slope,
        "margin_95": margin,
    }
