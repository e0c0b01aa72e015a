"""Where trainings run: processes on this machine, or tasks of a Ray cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from geq.error import MissingExtraError, OptionError
from geq.experiment.child import arguments_for
from geq.experiment.execution import cores
from geq.experiment.plan import Work

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


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

    def start(self, work: Work, log: Path) -> Started:
        """Begin; what it prints goes to ``log``."""
        ...


class LocalProcess:
    """A child process; see :mod:`geq.experiment.child`."""

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
        command = [sys.executable, "-m", "geq.experiment.child", *arguments_for(work)]
        self.running[free[0]] = LocalProcess(command, log, environment)
        return self.running[free[0]]

    def _is_free(self, slot: int) -> bool:
        return slot not in self.running or self.running[slot].poll() is not None


class RayTask:
    """A task of a cluster; it runs the same child process there."""

    def __init__(self, ray: Any, reference: Any, log: Path) -> None:
        self.ray, self.reference, self.log = ray, reference, log

    def poll(self) -> int | None:
        ready, _ = self.ray.wait([self.reference], timeout=0)
        if not ready:
            return None
        code, output = self.ray.get(self.reference)
        self.log.write_bytes(output)
        return int(code)

    def stop(self) -> None:
        self.ray.cancel(self.reference, force=True)  # the child sees its input end, saves and ends


class RayLauncher:
    """Tasks of one core each (or one GPU) on an existing Ray cluster, whose machines share the runs' folder.

    Args:
        workers: tasks at a time; the default is all cores (GPUs) of the cluster.
        gpus: 1 asks for a GPU for each task, 0 for a core.
        address: of the cluster; "local" starts one on this machine.
    """

    def __init__(self, workers: int | None = None, gpus: int = 0, address: str = "auto") -> None:
        try:
            import ray
        except ImportError as problem:
            raise MissingExtraError.naming("ray", "cluster", "geq reproduce --launcher ray") from problem
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False)
        self.ray = ray
        resource = "GPU" if gpus else "CPU"
        self.slots = workers or max(1, int(ray.cluster_resources().get(resource, 1)))
        self.task = ray.remote(num_cpus=0 if gpus else 1, num_gpus=1 if gpus else 0)(run_child)

    def start(self, work: Work, log: Path) -> RayTask:
        return RayTask(self.ray, self.task.remote(arguments_for(work)), log)


def run_child(arguments: list[str]) -> tuple[int, bytes]:
    """Run the child to its end; returns its code and what it printed."""
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    command = [sys.executable, "-m", "geq.experiment.child", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    ) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        return process.wait(), output
