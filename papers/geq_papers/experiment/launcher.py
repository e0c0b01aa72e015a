"""Launcher of trainings as processes on this machine; see :mod:`geq_papers.experiment.ray_launcher` for
clusters."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from geq.errors import OptionError
from geq_papers.experiment.plan import Work
from geq_papers.experiment.ray_worker import THREADS
from geq_papers.experiment.train_and_record import cores
from geq_papers.experiment.training_process import arguments_for


@runtime_checkable
class Started(Protocol):
    """A training that was started."""

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        ...

    def stop(self) -> None:
        """Ask it to save and end; returns when it has."""
        ...


@runtime_checkable
class Launcher(Protocol):
    """Starts trainings, at most ``slots`` at a time."""

    @property
    def slots(self) -> int: ...

    @property
    def gpus(self) -> int:
        """Number of GPUs that trainings get; 0 where they run on cores."""
        ...

    def start(self, work: Work, log: Path) -> Started:
        """Begin; what it prints goes to ``log``."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class LocalProcess:
    """A child process; see :mod:`geq_papers.experiment.training_process`."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str]) -> None:
        with log.open("wb") as file:
            # A session of its own: Ctrl-C reaches the parent alone, which then stops its children in order.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )

    def poll(self) -> int | None:
        code = self.process.poll()
        if code is not None and self.process.stdin is not None:
            self.process.stdin.close()
        return code

    def stop(self, patience: float = 120.0) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class LocalLauncher:
    """One process per core with one thread, or one process per GPU.

    Args:
        workers: processes at a time; the default is all cores (GPUs) that this process may use.
        gpus: number of GPUs to divide among the processes; 0 trains on the CPU.
    """

    def __init__(self, workers: int | None = None, gpus: int = 0) -> None:
        most, what = (gpus, "GPUs") if gpus else (cores(), "cores")
        if workers is not None and not 1 <= workers <= most:
            raise OptionError(f"workers must be 1 to {most}, one for each of the {what}: got {workers}")
        self.slots = workers or most
        self.gpus = gpus
        self.running: dict[int, LocalProcess] = {}

    def start(self, work: Work, log: Path) -> LocalProcess:
        free = [slot for slot in range(self.slots) if self._is_free(slot)]
        assert free, "more trainings at a time than there are slots"
        threads = 1 if not self.gpus else max(1, cores() // self.slots)
        environment = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
        if self.gpus:
            environment["CUDA_VISIBLE_DEVICES"] = str(free[0])
        command = [sys.executable, "-m", "geq_papers.experiment.training_process", *arguments_for(work)]
        self.running[free[0]] = LocalProcess(command, log, environment)
        return self.running[free[0]]

    def close(self) -> None:
        """Its processes end by themselves."""

    def _is_free(self, slot: int) -> bool:
        return slot not in self.running or self.running[slot].poll() is not None
