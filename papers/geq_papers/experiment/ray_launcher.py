"""Trainings as tasks of a Ray cluster.

    ray start --head                                                  # on one machine
    ray start --address HEAD:6379                                     # on each of the others
    geq reproduce all --scale small --launcher ray --address HEAD:6379

The machines share the folder that the command is called in, with the runs and the results, and the package.
A cluster that asks for a token is joined with RAY_AUTH_MODE=token.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

from geq.errors import MissingExtraError, OptionError, one_line
from geq_papers.experiment.plan import Work
from geq_papers.experiment.ray_worker import PATIENCE, run_child
from geq_papers.experiment.train_and_record import cores
from geq_papers.experiment.training_process import INTERRUPTED, arguments_for

DIED = 1
"""Code of a task whose worker ended before it could say anything."""

ONE_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's name for the setting that, at 0, lets all of its processes listen on 127.0.0.1 only, on every system.
(Where that address is given for the node, Ray replaces it by that of the network.)"""

NICENESS = "RAY_worker_niceness"
"""Ray's name for how much its tasks step back; at 0 they are as quick as processes that are started here."""

KNOCK = 10.0
"""Seconds to wait for an answer of a cluster."""

STORE = 2**27
"""Bytes of memory for the results of tasks: a code and some lines of text."""


class RayTask:
    """A task of a cluster; it runs the same child process there."""

    def __init__(self, ray: Any, reference: Any, log: Path) -> None:
        self.ray, self.reference, self.log = ray, reference, log

    def poll(self) -> int | None:
        ready, _ = self.ray.wait([self.reference], timeout=0)
        if not ready:
            return None
        try:
            code, output = self.ray.get(self.reference)
        except self.ray.exceptions.TaskCancelledError:
            code, output = INTERRUPTED, b""
        except self.ray.exceptions.RayError as problem:
            said = f"the cluster's task died ({type(problem).__name__}): {one_line(problem)}"
            code, output = DIED, f"geq: error: {said}\n".encode()
        self.log.write_bytes(output)
        return int(code)

    def stop(self) -> None:
        """The task is interrupted, so that its child can save."""
        self.ray.cancel(self.reference, force=False)
        self.ray.wait([self.reference], timeout=PATIENCE)


class RayLauncher:
    """Tasks of one core each (and one GPU) on a Ray cluster, whose machines share the runs' folder.

    Args:
        workers: tasks at a time; the default is all cores (GPUs) of the cluster.
        gpu: ask for a GPU for each task as well, if the cluster has any.
        address: of the cluster. "local" starts one on this machine, which nobody else can reach and which
            ends with :meth:`close`; None is what ``RAY_ADDRESS`` names, or a cluster that runs on this
            machine.
    """

    def __init__(self, workers: int | None = None, gpu: bool = False, address: str | None = None) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # nothing is sent to anybody
        place = "local" if address == "local" else address or found_address()
        if place is not None and is_here(place):
            os.environ[ONE_MACHINE] = "0"  # read when ray is imported
            os.environ[NICENESS] = "0"
        try:
            import ray
            import ray.exceptions
        except ImportError as problem:
            raise MissingExtraError.naming(
                "ray", "cluster", "geq reproduce --launcher ray", "geq-papers"
            ) from problem
        self.ray: Any = ray
        self.mine = not ray.is_initialized()
        if self.mine:
            connect(ray, place)
        resources = ray.cluster_resources()
        self.gpus = int(resources.get("GPU", 0)) if gpu else 0
        most, what = (self.gpus, "GPUs") if self.gpus else (int(resources.get("CPU", 0)), "cores")
        if not 1 <= (workers or most) <= most:
            self.close()
            raise OptionError(
                f"workers must be 1 to {most}, one for each of the cluster's {what}: got {workers or most}"
            )
        self.slots = workers or most
        # Not tried again by Ray: a failed run is reported, and the same command resumes it.
        self.task = ray.remote(num_cpus=1, num_gpus=1 if self.gpus else 0, max_retries=0)(run_child)

    def start(self, work: Work, log: Path) -> RayTask:
        settings = {name: value for name, value in os.environ.items() if name.startswith("GEQ_")}
        return RayTask(self.ray, self.task.remote(arguments_for(work), os.getcwd(), settings), log)

    def close(self) -> None:
        if self.mine:
            self.ray.shutdown()


def found_address() -> str | None:
    """Return the address in ``RAY_ADDRESS``, or of the cluster that ``ray start`` started on this machine.

    Not every cluster that Ray itself would find: one that another program holds for itself is left alone.
    """
    left = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster"
    written = left.read_text(encoding="utf-8").strip() if left.exists() else ""
    return os.environ.get("RAY_ADDRESS") or written or None


def is_here(address: str) -> bool:
    """Return whether only this machine can reach it.

    >>> is_here("local"), is_here("127.0.0.1:6379"), is_here("head:6379")
    (True, True, False)
    """
    host = address.rpartition(":")[0].strip("[]")
    return address == "local" or host in ("localhost", "::1") or host.startswith("127.")


def knock(address: str) -> None:
    """Raise an error at once if no server listens; Ray itself would try for a quarter of an hour."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), KNOCK).close()


def connect(ray: Any, address: str | None) -> None:
    """Join the cluster at an address, or start one here ("local")."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    advice = "start one with 'ray start --head', or let --address local start one on this machine"
    if address is None:
        raise OptionError(f"no Ray cluster runs on this machine, and $RAY_ADDRESS names none: {advice}")
    if address == "local":
        ray.init(
            address="local", num_cpus=cores(), include_dashboard=False, object_store_memory=STORE, **quiet
        )
        return
    try:
        knock(address)
        ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError) as problem:
        raise OptionError(
            f"no Ray cluster can be reached at {address} ({one_line(problem)}): {advice}"
        ) from problem
