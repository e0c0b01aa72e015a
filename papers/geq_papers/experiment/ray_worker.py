"""Task on a machine of a cluster: the same child process as on the local machine.

Nothing but the standard library is imported here: the cluster's worker loads this module, and only the child
loads torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables by which libraries are told how many threads they may start."""

PAUSE = 0.2
"""Seconds between checks of the child."""

PATIENCE = 120.0
"""Seconds that a child has for saving its run."""


def run_child(arguments: list[str], folder: str, settings: dict[str, str]) -> tuple[int, bytes]:
    """Run ``python -m geq_papers.experiment.training_process`` to its end; return its code and output.

    Args:
        arguments: of the child.
        folder: to run it in, so that relative paths mean what they mean to the one who asks.
        settings: variables of the environment that this machine may not have; its own ones win.
    """
    if not Path(folder).is_dir():
        return 2, (
            f"geq: error: {folder} is not there on {os.uname().nodename}: the machines of a cluster must "
            "share the folder that the command is called in\n"
        ).encode()
    environment = {**settings, **os.environ, **dict.fromkeys(THREADS, "1")}
    command = [sys.executable, "-m", "geq_papers.experiment.training_process", *arguments]
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
        )
        try:
            # Not one long wait: Ray cancels by an exception, which comes between two steps of Python.
            while process.poll() is None:
                time.sleep(PAUSE)
        finally:
            save_and_end(process)
        printed.seek(0)
        return process.returncode, printed.read()


def save_and_end(process: subprocess.Popen[bytes]) -> None:
    """End a child that still runs: when its input closes it saves first."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
