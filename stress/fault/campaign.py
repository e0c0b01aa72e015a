"""Run all kinds of faults, each in a process in which nothing else has run.

``python -m stress.fault.campaign short|long SEED KIND…`` is such a process; it prints each row as JSON.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

from stress.stress_parts import StressRow

KINDS = {
    "rank": "training_faults",
    "training": "training_faults",
    "output": "result_faults",
    "fetching": "dataset_faults",
    "disk": "disk_faults",
    "reproduction": "result_faults",
    "vanishing": "dataset_faults",
    "corruption": "dataset_faults",
    "readonly": "disk_faults",
    "clock": "training_faults",
}
"""Functions of a scale, and the module of each, the longest first."""

AT_A_TIME = 2
LOADED = """
geq.cli geq.command.train geq.command.data geq.command.export geq.command.weights geq.command.evaluate
geq.command.runs geq.training.fit geq.data.fetch geq.export geq.weights.pack geq.weights.card_measurements
geq.analysis.part_runner geq_papers.command.reproduce geq_papers.command.report
geq_papers.experiment.training_process geq_papers.experiment.runner geq_papers.report.page
torch.utils.tensorboard lightning.fabric jsonargparse rich.progress rich.table sklearn.datasets PIL.Image
matplotlib.figure skimage scipy.ndimage yaml
"""
"""Modules that the forked children would otherwise load each by itself."""


def run(short: bool, seed: int, kinds: tuple[str, ...] = tuple(KINDS)) -> Iterator[StressRow]:
    """Yield the rows as they come. New processes do the forking: a child of one that computed cannot."""
    rows: queue.Queue[StressRow | None] = queue.Queue()
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
    command = [sys.executable, "-m", "stress.fault.campaign", form, str(seed), *kinds]
    root, environment = Path(__file__).parents[2], {**os.environ, **threads}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=root)


def collect(process: subprocess.Popen[str], rows: queue.Queue[StressRow | None]) -> None:
    """Put the rows of a process into ``rows``, and None at its end."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            rows.put(StressRow(**json.loads(line)))
    if process.wait() != 0:
        rows.put(StressRow("the campaign itself", 1, 0, f"a process ended with code {process.returncode}"))
    rows.put(None)


def main(form: str, seed: str, *kinds: str) -> None:
    import torch

    from stress.fault.disk_faults import own_mounts
    from stress.fault.trial import TrialScale

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # ends what it has started as well
    own_mounts()
    torch.set_num_threads(1)
    for name in LOADED.split():
        import_module(name)
    # Forking warns of threads; those that are here (of imports) do not compute.
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
    for kind in kinds:
        attack = getattr(import_module(f"stress.fault.{KINDS[kind]}"), kind)
        with tempfile.TemporaryDirectory(prefix=f"geq-fault-{kind}-") as folder:
            begun = time.monotonic()
            for row in attack(TrialScale(form == "short", int(seed), Path(folder))):
                print(
                    json.dumps(asdict(replace(row, seconds=round(time.monotonic() - begun, 1)))), flush=True
                )
                begun = time.monotonic()


if __name__ == "__main__":
    main(*sys.argv[1:])
