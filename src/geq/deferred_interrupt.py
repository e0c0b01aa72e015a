"""Ctrl-C while modules are loading: kept until they are loaded.

An exception that a signal raises in the middle of an import may be lost: extension modules answer it with
"could not import" or drop it, and the command would go on as if nobody had asked it to stop.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.05
"""Seconds after which an interrupt that came during an import is tried again."""


def importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def interrupt(number: int, frame: FrameType | None) -> None:
    if not importing(frame):
        raise KeyboardInterrupt
    import _thread
    from threading import Timer

    timer = Timer(AGAIN, _thread.interrupt_main)
    timer.daemon = True
    timer.start()


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, Ctrl-C raises ``KeyboardInterrupt`` at a moment where it is not lost."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # somebody else answers, or nobody is meant to (a job in the background)
        return
    try:
        signal.signal(signal.SIGINT, interrupt)
    except ValueError:  # not the main thread, which alone is interrupted
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
