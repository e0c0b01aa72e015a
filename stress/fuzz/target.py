"""Targets of the fuzzer: readers of untrusted data, and what becomes of one file given to them."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from geq.errors import GeqError
from stress.stress_parts import peak

Mutation = Callable[[bytes, Random], bytes]
Read = Callable[[bytes], None]
MODULES = ("stress.fuzz.dataset_target", "stress.fuzz.run_target")
"""Modules that add targets when they are imported."""
SECONDS = 2.0
"""CPU time that one small file may take."""
MEGABYTES = 600
"""Memory that the process may grow by, over all files."""
MEASURED = 50
"""Executions between two looks at the memory; its peak stays visible."""


@dataclass(frozen=True)
class Target:
    """A reader.

    Args:
        name: Name of the target.
        summary: What is read.
        one: Reads one file; it may raise a :class:`~geq.errors.GeqError` and nothing else.
        seeds: Makes the valid files.
        structured: Mutations that keep checksums and lengths right, so that what follows them is reached.
        largest: Bytes of a mutated file.
        rate: Share of the executions of the short form, for readers that are slow.
    """

    name: str
    summary: str
    one: Read
    seeds: Callable[[], list[bytes]]
    structured: tuple[Mutation, ...] = ()
    largest: int = 8192
    rate: float = 1.0


_TARGETS: dict[str, Target] = {}


def target(seeds: Callable[[], list[bytes]], *structured: Mutation, **limits: Any) -> Callable[[Read], Read]:
    """Add the decorated reader to the targets; its docstring is the summary."""

    def add(one: Read) -> Read:
        name, words = one.__name__, (one.__doc__ or "").rstrip(".")
        summary = words[:1].lower() + words[1:]
        _TARGETS[name] = Target(name, summary, one, seeds, structured, **limits)
        return one

    return add


def targets() -> dict[str, Target]:
    """Return all targets by name."""
    for module in MODULES:
        import_module(module)
    return dict(_TARGETS)


def scratch(name: str = "") -> Path:
    """Return a folder of this process, in memory where there is such a place."""
    return _scratch(os.getpid(), name)


@lru_cache(maxsize=64)
def _scratch(process: int, name: str) -> Path:
    if name:
        folder = _scratch(process, "") / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="geq-fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def put(path: Path, data: bytes) -> Path:
    """Write without synchronising: a fuzzed file need not survive a power failure."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)
    return path


class Overtime(BaseException):
    """Not an Exception: no reader may catch it."""


@dataclass
class FuzzTally:
    """Executions of one target."""

    target: Target
    executions: int = 0
    read: int = 0
    slowest: float = 0.0
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    first_memory: float = field(default_factory=peak)
    blown_up: bool = False

    @property
    def growth(self) -> float:
        """Growth of memory in megabytes."""
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


class _Clock:
    """Limit on the CPU time of one execution: one timer for all, since setting one takes as long as many."""

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
