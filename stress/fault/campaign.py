"""All kinds of faults, in processes of their own in which nothing else has run; rows come when ready."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from stress.part import Row

KINDS = (
    *("rank", "training", "output", "truncation", "fetching", "disk"),
    *("reproduction", "vanishing", "corruption", "worker", "readonly", "clock"),
)
"""Files of this folder with ``attack(scale)``, the longest first."""

AT_A_TIME = 2


def run(short: bool, seed: int, kinds: tuple[str, ...] = KINDS) -> Iterator[Row]:
    """Forked children can only compute if their parent has not: so new processes are their parents."""
    rows: queue.Queue[Row | None] = queue.Queue()
    groups = [group for group in (kinds[place::AT_A_TIME] for place in range(AT_A_TIME)) if group]
    processes = [parent("short" if short else "long", seed, group) for group in groups]
    for process in processes:
        threading.Thread(target=collect, args=(process, rows), daemon=True).start()
    try:
        left = len(processes)
        while left:
            row = rows.get()
            if row is None:
                left -= 1
            else:
                yield row
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def parent(form: str, seed: int, kinds: tuple[str, ...]) -> subprocess.Popen[str]:
    threads = {"OMP_NUM_THREADS": "1", "GEQ_TORCH_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        [sys.executable, "-m", "stress.fault", form, str(seed), *kinds],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **threads},
        cwd=Path(__file__).parents[2],
    )


def collect(process: subprocess.Popen[str], rows: queue.Queue[Row | None]) -> None:
    """Put what a process prints into ``rows``, and None at its end."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            rows.put(Row(**json.loads(line)))
    if process.wait() != 0:
        rows.put(Row("the campaign itself", 1, 0, f"a process ended with code {process.returncode}"))
    rows.put(None)
