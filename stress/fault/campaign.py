"""All kinds of faults, in a process of their own that nothing else has run in; its rows come as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from stress.part import Row

KINDS = (
    "training",
    "reproduction",
    "fetching",
    "corruption",
    "output",
    "disk",
    "readonly",
    "vanishing",
    "truncation",
    "clock",
    "worker",
    "rank",
)
"""Files of this folder with ``attack(scale)``."""


def run(short: bool, seed: int, kinds: tuple[str, ...] = KINDS) -> Iterator[Row]:
    """Forked children can only compute if their parent has not: so a new process is their parent."""
    command = [sys.executable, "-m", "stress.fault", "short" if short else "long", str(seed), *kinds]
    threads = {"OMP_NUM_THREADS": "1", "GEQ_TORCH_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **threads},
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            yield Row(**json.loads(line))
        if process.wait() != 0:
            yield Row("the campaign itself", 1, 0, f"ended with code {process.returncode}")
    finally:
        process.kill()
        process.wait()
