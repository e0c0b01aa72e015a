"""Runs what is missing of a plan, several trainings at a time, and collects their records."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from geq.error import GeqError
from geq.experiment.child import INTERRUPTED
from geq.experiment.experiment import ScaleName
from geq.experiment.launcher import Launcher, Started
from geq.experiment.plan import Job, Work, grouped, usable
from geq.experiment.record import add_record, read_records, record_path
from geq.training.durable import explained_write_errors

PAUSE = 0.2
"""Seconds between looks at the processes."""

TAIL = 12
"""Lines of a failed process's output that are shown."""


class Interrupted(GeqError):
    """Stopped by the user; the same command goes on."""


@runtime_checkable
class Watcher(Protocol):
    """Who is told how things go."""

    def started(self, work: Work) -> None: ...

    def progressed(self, work: Work, epochs: int) -> None: ...

    def ended(self, work: Work, failure: str | None) -> None: ...


@dataclass
class Runner:
    """Runs the jobs of one scale.

    Args:
        launcher: where they run.
        results: folder of the records.
        logs: folder of what the processes print.
        watcher: is told.
    """

    launcher: Launcher
    results: Path
    logs: Path
    watcher: Watcher
    failures: dict[str, str] = field(default_factory=dict)

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        """The jobs without a record of their configuration. What earlier processes left in the folders of
        runs is collected first.
        """
        found: list[Job] = []
        done: dict[tuple[str, ScaleName], set[tuple[str, int]]] = {}
        for job in jobs:
            key = (job.experiment, job.scale)
            if key not in done:
                done[key] = self.recorded(job.experiment, job.scale)
            if (job.arm, job.seed) not in done[key] and not self.collect(job):
                found.append(job)
        return found

    def recorded(self, experiment: str, scale: ScaleName) -> set[tuple[str, int]]:
        records, _ = read_records(record_path(self.results, scale, experiment))
        return {(record.arm, record.seed) for record in usable(experiment, scale, records)[0]}

    def collect(self, job: Job) -> bool:
        """Whether its process has left a record, which is now among the results."""
        record = job.made()
        if record is not None:
            add_record(record_path(self.results, job.scale, job.experiment), record)
        return record is not None

    def run(self, jobs: Iterable[Job]) -> None:
        """Run ``jobs``; a failure of one does not stop the others (see ``failures``)."""
        waiting = grouped(jobs)
        active: dict[str, tuple[Work, Started, Path]] = {}
        with explained_write_errors(self.logs, "Nothing was started."):
            self.logs.mkdir(parents=True, exist_ok=True)
        try:
            while waiting or active:
                while waiting and len(active) < self.launcher.slots:
                    work = waiting.pop(0)
                    log = self.logs / f"{work.folder.name}.log"
                    active[work.folder.name] = (work, self.launcher.start(work, log), log)
                    self.watcher.started(work)
                time.sleep(PAUSE)
                for name, (work, started, log) in list(active.items()):
                    self.watcher.progressed(work, len(work.folder.epochs()))
                    code = started.poll()
                    if code is not None:
                        del active[name]
                        self._ended(work, code, log)
        except KeyboardInterrupt:
            for _, started, _ in active.values():
                started.stop()
            for work, _, _ in active.values():
                for job in work.jobs:
                    self.collect(job)
            raise Interrupted("stopped; every run is saved, and the same command goes on from here") from None

    def _ended(self, work: Work, code: int, log: Path) -> None:
        left = [job for job in work.jobs if not self.collect(job)]
        failure = None
        if left:
            printed = log.read_text(errors="replace").splitlines()[-TAIL:] if log.exists() else []
            errors = [line for line in printed if line.startswith("geq: error: ")]
            how = "was interrupted" if code == INTERRUPTED else f"ended with code {code}"
            failure = errors[-1].removeprefix("geq: error: ") if errors else "\n".join([how, *printed])
            self.failures[work.label] = failure
        self.watcher.ended(work, failure)
