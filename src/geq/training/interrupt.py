"""Ctrl-C (and a cluster's request to stop): save, then end."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from geq.errors import GeqError


class TrainingInterrupted(GeqError):
    """The run was asked to stop, and can be resumed."""


class Interrupt:
    """Note SIGINT and SIGTERM between :meth:`start` and :meth:`stop`; a second SIGINT interrupts at once."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.requested = False
        self.before: dict[signal.Signals, Any] = {}

    def request(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True

    def start(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self.before = {number: signal.signal(number, self.request) for number in self.SIGNALS}

    def stop(self) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        self.before = {}
