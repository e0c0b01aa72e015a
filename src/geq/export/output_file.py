"""Putting a finished file in its place."""

from __future__ import annotations

import os
from pathlib import Path

from geq.atomic_io import write_durably
from geq.errors import CheckpointError


def refusal(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path} cannot be written ({reason}): choose another file; nothing was written")


def check_place(path: Path) -> None:
    """Refuse a folder that cannot be written to before the work is done."""
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise refusal(path, f"{path.parent} may not be changed")


def put(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` in one step: a reader, or a crash, never meets half of it."""
    try:
        write_durably(path, content)
    except OSError as problem:
        raise refusal(path, problem.strerror or str(problem)) from problem
