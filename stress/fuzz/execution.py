"""One file given to a reader: what came of it, and what is a finding."""

from __future__ import annotations

import atexit
import os
import resource
import signal
import time
import traceback
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from geq.errors import GeqError
from stress.fuzz.target import Target

SECONDS = 2.0
"""Of CPU time that one small file may take."""
MEGABYTES = 600
"""That the process may grow by, over all files."""
MEASURED = 50
"""Executions between two looks at the memory; its peak stays visible."""


class Overtime(BaseException):
    """Not an Exception: no reader may catch it."""


@dataclass
class Tally:
    """Executions of one target."""

    target: Target
    executions: int = 0
    read: int = 0
    slowest: float = 0.0
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    first_memory: float = field(default_factory=lambda: peak())
    blown_up: bool = False

    @property
    def growth(self) -> float:
        """Megabytes."""
        return peak() - self.first_memory

    def execute(self, data: bytes) -> None:
        """Read one file; whatever is neither success nor a clear refusal is kept."""
        self.executions += 1
        began = _clock.start()
        try:
            self.target.one(data)
            self.read += 1
        except GeqError:
            pass
        except (Exception, Overtime) as problem:
            self.keep(data, problem)
        self.slowest = max(self.slowest, _clock.stop() - began)
        if self.executions % MEASURED == 0 and self.growth > MEGABYTES and not self.blown_up:
            self.blown_up = True
            self.keep(data, MemoryError(f"grew to {self.growth:.0f} MB within {MEASURED} executions"))

    def keep(self, data: bytes, problem: BaseException) -> None:
        last = traceback.extract_tb(problem.__traceback__)[-1:]
        place = f"{last[0].filename.rsplit('/', 2)[-1]}:{last[0].lineno}" if last else ""
        key = f"{type(problem).__name__} {place}"
        found = self.findings.setdefault(key, {"message": str(problem)[:300], "times": 0, "data": data.hex()})
        found["times"] += 1
        if 2 * len(data) < len(found["data"]):
            found["data"] = data.hex()

    def summary(self) -> dict[str, Any]:
        return {
            "executions": self.executions,
            "read": self.read,
            "refused": self.executions - self.read - sum(f["times"] for f in self.findings.values()),
            "slowest_seconds": round(self.slowest, 3),
            "memory_growth_mb": round(self.growth, 1),
            "findings": self.findings,
        }


def peak() -> float:
    """Most memory that this process had at any time, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class _Clock:
    """Ends what takes too long, by the CPU time of this process: others may have the machine meanwhile.

    One timer for all executions; setting one for each would take as long as many of them.
    """

    def __init__(self) -> None:
        self.process = 0
        self.began: float | None = None

    def start(self) -> float:
        if self.process != os.getpid():  # timers are not inherited
            self.process = os.getpid()
            atexit.register(signal.setitimer, signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, self.look)
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS / 4, SECONDS / 4)
        self.began = time.process_time()
        return self.began

    def stop(self) -> float:
        self.began = None
        return time.process_time()

    def look(self, number: int, frame: FrameType | None) -> None:
        if self.began is not None and time.process_time() - self.began > SECONDS:
            raise Overtime(f"more than {SECONDS} s of CPU time")


_clock = _Clock()
