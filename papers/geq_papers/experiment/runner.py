"""Runs what is missing of a plan, several trainings at a time, and collects their records."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from geq.atomic_io import explained_write_errors
from geq.errors import CheckpointError, GeqError
from geq_papers.experiment.experiment import ScaleName
from geq_papers.experiment.launcher import Launcher, Started
from geq_papers.experiment.plan import Job, Work, grouped, usable
from geq_papers.experiment.record import add_record, read_records, record_path
from geq_papers.experiment.train_and_record import LONGEST_WAIT
from geq_papers.experiment.training_process import INTERRUPTED

PAUSE = 0.2
"""Seconds between checks of the processes."""

TAIL = 12
"""Lines of a failed process's output that are shown."""


class Interrupted(GeqError):
    """Stopped by the user; the same command resumes."""


@runtime_checkable
class Watcher(Protocol):
    """Observer of the progress."""

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
        patience: seconds to wait for a run that another process is making.
    """

    launcher: Launcher
    results: Path
    logs: Path
    watcher: Watcher
    patience: float = LONGEST_WAIT
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
        """Move the record of its process to the results; return whether there was one."""
        record = job.made()
        if record is not None:
            add_record(record_path(self.results, job.scale, job.experiment), record)
        return record is not None

    def run(self, jobs: Iterable[Job]) -> None:
        """Run ``jobs``; a failure of one does not stop the others (see ``failures``)."""
        waiting = grouped(jobs)
        active: dict[str, tuple[Work, Started, Path]] = {}
        self._check_folders()
        idle = time.monotonic()
        try:
            while waiting or active:
                while len(active) < self.launcher.slots and (work := first_free(waiting)) is not None:
                    waiting.remove(work)
                    log = self.logs / f"{work.folder.name}.log"
                    active[work.folder.name] = (work, self.launcher.start(work, log), log)
                    self.watcher.started(work)
                time.sleep(PAUSE)
                if active:
                    idle = time.monotonic()
                elif time.monotonic() - idle > self.patience:
                    self._give_up(waiting)
                    return
                for name, (work, started, log) in list(active.items()):
                    self.watcher.progressed(work, finished_epochs(work))
                    code = started.poll()
                    if code is not None:
                        del active[name]
                        self._ended(work, code, log)
        except KeyboardInterrupt:
            self._stop(active)
            for work, _, _ in active.values():
                for job in work.jobs:
                    self.collect(job)
            raise Interrupted("stopped; every run is saved, and the same command resumes from here") from None
        except GeqError:
            self._stop(active)
            raise

    def _check_folders(self) -> None:
        """Before hours of work, and not after them: whether the records and logs can be written."""
        safe = "Nothing was started."
        for folder, option in ((self.results, "--results"), (self.logs, "--runs")):
            try:
                with explained_write_errors(folder, safe, option):
                    folder.mkdir(parents=True, exist_ok=True)
                    with tempfile.NamedTemporaryFile(dir=folder, prefix=".", suffix=".tmp"):
                        pass
            except OSError as problem:
                raise CheckpointError(
                    f"{folder} cannot be written ({problem.strerror}): choose another with {option}. {safe}"
                ) from problem

    @staticmethod
    def _stop(active: Mapping[str, tuple[Work, Started, Path]]) -> None:
        for _, started, _ in active.values():
            started.stop()

    def _give_up(self, waiting: Iterable[Work]) -> None:
        for work in waiting:
            failure = f"another process is writing {work.folder.path}: wait for it, or stop it"
            self.failures[work.label] = failure
            self.watcher.started(work)
            self.watcher.ended(work, failure)

    def _ended(self, work: Work, code: int, log: Path) -> None:
        left = [job for job in work.jobs if not self.collect(job)]
        failure = None
        if left:
            printed = (
                log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:] if log.exists() else []
            )
            errors = [line for line in printed if line.startswith("geq: error: ")]
            how = "was interrupted" if code == INTERRUPTED else f"ended with code {code}"
            failure = errors[-1].removeprefix("geq: error: ") if errors else "\n".join([how, *printed])
            self.failures[work.label] = failure
        self.watcher.ended(work, failure)


def first_free(waiting: Iterable[Work]) -> Work | None:
    """The first whose run no other process is making; several commands may share a folder of runs."""
    return next((work for work in waiting if not work.folder.in_use()), None)


def finished_epochs(work: Work) -> int:
    try:
        return len(work.folder.epochs())
    except CheckpointError:
        return 0
