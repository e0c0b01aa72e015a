"""Filter for the output of exporters: hide remarks for developers, shorten errors."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from geq.errors import one_line

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
