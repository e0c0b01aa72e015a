"""What is fuzzed: a reader of outside data with a small corpus of valid files, by name."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from random import Random

Mutation = Callable[[bytes, Random], bytes]

MODULES = (
    "stress.fuzz.dataset_target",
    "stress.fuzz.picture_target",
    "stress.fuzz.run_target",
    "stress.fuzz.model_target",
    "stress.fuzz.hub_target",
)
"""Each adds its targets when it is imported."""


@dataclass(frozen=True)
class Target:
    """A reader.

    Args:
        name: of the target.
        summary: what is read.
        one: reads one file; it may raise a :class:`~geq.errors.GeqError` and nothing else.
        seeds: makes the valid files.
        structured: mutations that keep checksums and lengths right, so that what follows them is reached.
        largest: bytes of a mutated file.
        rate: share of the executions of the short form, for readers that are slow.
    """

    name: str
    summary: str
    one: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    structured: tuple[Mutation, ...] = ()
    largest: int = 8192
    rate: float = 1.0


_TARGETS: dict[str, Target] = {}


def add(
    name: str,
    summary: str,
    one: Callable[[bytes], None],
    seeds: Callable[[], list[bytes]],
    *structured: Mutation,
    largest: int = 8192,
    rate: float = 1.0,
) -> None:
    _TARGETS[name] = Target(name, summary, one, seeds, structured, largest, rate)


def targets() -> dict[str, Target]:
    """All of them, by name."""
    for module in MODULES:
        import_module(module)
    return dict(_TARGETS)


@lru_cache(maxsize=1)
def _scratch(process: int) -> Path:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="geq-fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def scratch(name: str = "") -> Path:
    """A folder of this process, in memory where there is such a place."""
    return _below(os.getpid(), name)


@lru_cache(maxsize=64)
def _below(process: int, name: str) -> Path:
    folder = _scratch(process) / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def put(path: Path, data: bytes) -> Path:
    """Write without telling anyone: a fuzzed file need not survive a power failure."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)
    return path
