"""Write an exported file in one step, with the remarks of the exporters kept from users."""

from __future__ import annotations

import io
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from geq.atomic_io import write_durably
from geq.errors import CheckpointError, one_line


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


TALKERS = ("torch.onnx", "torch.export", "torch.fx", "onnxscript", "onnx_ir")


@contextmanager
def without_noise() -> Iterator[None]:
    """No warnings of deprecated calls inside torch, of its loggers errors only, and nothing printed: older
    versions of onnxscript tell how many rules they applied, in the middle of an answer in JSON.
    """
    loggers = [logging.getLogger(name) for name in TALKERS]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def reason(problem: BaseException) -> str:
    """Return the message of the original error on one line."""
    while problem.__cause__ is not None:
        problem = problem.__cause__
    return one_line(problem)
