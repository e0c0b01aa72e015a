"""Makes the records of one training: train or resume, measure, write down."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from geq.atomic_io import write_durably
from geq.training.environment import short_commit
from geq.training.fit import resume, train
from geq.training.run_folder import CONFIG, RunFolder
from geq_papers.experiment.plan import Job, Work
from geq_papers.experiment.record import Record

LONGEST_WAIT = 300.0
"""Seconds for which a run may be held by a process that is just saving it."""


def finish(work: Work) -> None:
    """Bring a training to its end and leave the record of every job in its folder."""
    folder = work.folder
    wait_until_free(folder)
    if (folder.path / CONFIG).exists():
        resume(folder)
    else:
        train(work.options)
    for job in work.jobs:
        if job.made() is None:
            write_durably(job.record_file, (make_record(job).line() + "\n").encode())


def wait_until_free(folder: RunFolder) -> None:
    """Processes whose parent was killed save their run first, and end then."""
    end = time.monotonic() + LONGEST_WAIT
    while folder.path.exists() and folder.in_use() and time.monotonic() < end:
        time.sleep(0.2)


def make_record(job: Job) -> Record:
    """Measure a finished run."""
    folder = job.folder
    final = folder.result()
    assert final is not None
    metrics: dict[str, Any] = {
        name: value
        for name, value in final.items()
        if name.startswith("test_") and name not in ("test_steps", "test_residual", "test_unconverged")
    }
    metrics["parameters"] = final["parameters"]
    for measurement in job.measurements:
        metrics |= measurement.measure(folder)
    environment = folder.environment()
    packages = environment.get("packages", {})
    return Record(
        experiment=job.experiment,
        scale=job.scale,
        arm=job.arm,
        seed=job.seed,
        config_hash=job.config_hash,
        config=without_places(job.options.as_mapping()),
        commit=short_commit(environment.get("commit")),
        versions={
            "geq": packages.get("geq"),
            "torch": packages.get("torch"),
            "python": environment["python"],
        },
        machine={
            "cpu": cpu_name(Path("/proc/cpuinfo")),
            "cores": environment.get("cores"),
            "device": ", ".join(environment.get("devices") or ["cpu"]),
        },
        epochs=[{k: v for k, v in line.items() if k != "kind"} for line in folder.epochs()],
        metrics=metrics,
        solver=solver_figures(final),
        cpu_seconds=float(final["cpu_seconds"]),
        wall_seconds=float(final["seconds"]),
        finished=datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),
    )


def without_places(options: dict[str, Any]) -> dict[str, Any]:
    """Remove folders of this machine: records are published."""
    return {name: value for name, value in options.items() if name not in ("runs", "data_root")}


def solver_figures(final: dict[str, Any]) -> dict[str, Any]:
    if "test_steps" not in final:
        return {}
    return {
        "evaluations": final["test_steps"],
        "residual": final["test_residual"],
        "converged": 1 - final["test_unconverged"],
    }


def cpu_name(described: Path) -> str:
    """Return the system's name of its processor."""
    lines: Iterable[str] = described.read_text(encoding="utf-8").splitlines() if described.exists() else ()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
