"""Trainings as tasks of a Ray cluster.

    ray start --head                                                  # on one machine
    ray start --address HEAD:6379                                     # on each of the others
    geq reproduce all --scale small --launcher ray --address HEAD:6379

The machines share the folder that the command is called in, with the runs and the results, and the package.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from geq.error import MissingExtraError, OptionError
from geq.experiment.child import INTERRUPTED, arguments_for
from geq.experiment.plan import Work
from geq.experiment.remote import PATIENCE, run_child

DIED = 1
"""Code of a task whose worker ended before it could say anything."""

LOOPBACK = "127.0.0.1"


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
            reason = " ".join(str(problem).split())
            code = DIED
            output = f"geq: error: the cluster's task died ({type(problem).__name__}): {reason}\n".encode()
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
        gpu: ask for a GPU for each task as well.
        address: of the cluster. "local" starts one on this machine, which nobody else can reach and which
            ends with :meth:`close`; None is what ``RAY_ADDRESS`` names, or a cluster that runs on this
            machine.
    """

    def __init__(self, workers: int | None = None, gpu: bool = False, address: str | None = None) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # nothing is sent to anybody
        try:
            import ray
            import ray.exceptions
        except ImportError as problem:
            raise MissingExtraError.naming("ray", "cluster", "geq reproduce --launcher ray") from problem
        self.ray: Any = ray
        self.mine = not ray.is_initialized()
        if self.mine:
            connect(ray, address)
        resource = "GPU" if gpu else "CPU"
        most = int(ray.cluster_resources().get(resource, 0))
        if not 1 <= (workers or most) <= most:
            self.close()
            raise OptionError(
                f"workers must be 1 to {most}, one for each {resource} of the cluster: got {workers or most}"
            )
        self.slots = workers or most
        # Not tried again by Ray: a run that went wrong is told, and the same command goes on with it.
        self.task = ray.remote(num_cpus=1, num_gpus=1 if gpu else 0, max_retries=0)(run_child)

    def start(self, work: Work, log: Path) -> RayTask:
        settings = {name: value for name, value in os.environ.items() if name.startswith("GEQ_")}
        return RayTask(self.ray, self.task.remote(arguments_for(work), os.getcwd(), settings), log)

    def close(self) -> None:
        if self.mine:
            self.ray.shutdown()


def connect(ray: Any, address: str | None) -> None:
    """Join a cluster, or start one here."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        ray.init(address="local", include_dashboard=False, _node_ip_address=LOOPBACK, **quiet)
        return
    try:
        ray.init(address=address or "auto", **quiet)
    except (ConnectionError, RuntimeError, ValueError) as problem:
        where = f"at {address}" if address else "(neither $RAY_ADDRESS nor one on this machine)"
        raise OptionError(
            f"no Ray cluster can be reached {where}: {' '.join(str(problem).split())}; start one with "
            "'ray start --head', or let --address local start one on this machine"
        ) from problem
