"""Runs cases one after another, each in its own process, and collects their records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

MALLOC = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_TOP_PAD_": str(2**28),
}
"""For glibc: large buffers are kept instead of being mapped again for every operation, on both sides."""


def run_case(name: str, threads: int, quick: bool) -> Iterator[dict[str, Any]]:
    """The records of one case, as they come; a process that dies leaves a record of that."""
    command = [sys.executable, "-m", "geq_papers.bench.child", name, "--threads", str(threads)]
    command += ["--quick"] if quick else []
    environment = {**os.environ, **MALLOC, "OMP_NUM_THREADS": str(max(2, threads))}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        yield {
            "case": name,
            "threads": threads,
            "quick": quick,
            "status": "failed",
            "reason": f"its process ended with code {process.returncode}",
        }
