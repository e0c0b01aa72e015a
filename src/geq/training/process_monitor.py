"""The processes that a training depends on: watch them, and explain the death of one.

Those that make batches are watched by torch, which raises an error wherever the training is just then. Those
of other devices are missed at the next exchange of gradients. Lightning, which starts them, ends a training
that does not notice within five seconds, without a message; so one is logged here before.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed

from geq.data.loader import WorkerDeath, worker_death
from geq.errors import GeqError

log = logging.getLogger("geq.training")

LOST = ("connection closed by peer", "connection reset by peer", "broken pipe", "connection refused")
"""What the libraries of communication say when the other side is no more."""

EVERY = 0.2
"""Seconds between checks of the processes."""


class ProcessLost(GeqError, RuntimeError):
    """A process that took part in the training is no more; the run can be resumed."""


@contextmanager
def explained_deaths(consequence: str) -> Iterator[None]:
    """Turn the death of a process into an error that says what is safe."""
    try:
        yield
    except WorkerDeath as problem:
        raise ProcessLost(f"{problem} {consequence}") from problem
    except GeqError:
        raise
    except RuntimeError as problem:
        death = worker_death(problem)
        if death is not None:
            raise ProcessLost(f"{death} {consequence}") from problem
        if lost_connection(problem):
            raise ProcessLost(
                "another process of this training has ended, which this one needs; if it did "
                f"not say why, the system may have killed it for lack of memory. {consequence}"
            ) from problem
        raise


def lost_connection(problem: RuntimeError) -> bool:
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return False
    kinds = (torch.distributed.DistNetworkError, torch.distributed.DistBackendError)
    return isinstance(problem, kinds) or any(words in str(problem).lower() for words in LOST)


class ProcessMonitor:
    """Log in the first process which other has died; those that torchrun or SLURM started, these watch.

    Args:
        consequence: what is safe.
    """

    def __init__(self, consequence: str) -> None:
        self.consequence = consequence
        self.over = threading.Event()

    def start(self, processes: list[subprocess.Popen[bytes]]) -> None:
        if processes:
            threading.Thread(target=self.watch, args=(processes,), daemon=True).start()

    def watch(self, started: list[subprocess.Popen[bytes]]) -> None:
        while not self.over.wait(EVERY):
            for rank, process in enumerate(started, 1):
                code = process.poll()
                if code:
                    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
                    told = "process %d of this training ended %s: all of it ends. %s"
                    log.error(told, rank, how, self.consequence)
                    return

    def stop(self) -> None:
        self.over.set()
