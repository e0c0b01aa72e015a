"""Commands in forked children: all is loaded already, so one costs what it does, not what it imports.

The process that forks must have no threads of computation; see :mod:`stress.fault.__main__`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

LONGEST = 300.0
"""Seconds after which a child counts as hanging."""

CLEAR = 2
"""The code with which a command ends after an error that is meant for a person."""


@dataclass(frozen=True)
class End:
    """How a child ended: its exit code (negative: the signal), and what it printed."""

    code: int
    text: str
    seconds: float

    @property
    def clear(self) -> bool:
        """Whether it said what is wrong in a sentence."""
        return self.code == CLEAR and "geq: error: " in self.text and "Traceback" not in self.text

    @property
    def failure(self) -> list[str]:
        """Its last words, unless it ended well."""
        return [] if self.code == 0 else [self.text[-300:]]

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Child:
    """
    Args:
        work: what it does; gives its exit code.
        output: file for what it prints.
    """

    def __init__(self, work: Callable[[], int], output: Path) -> None:
        self.output = output
        self.begun = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                for stream in (1, 2):
                    os.dup2(file, stream)
                # Those of a parent that was started by a test may lead elsewhere.
                sys.stdout, sys.stderr = (os.fdopen(os.dup(n), "w", buffering=1) for n in (1, 2))
                code = work()
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)

    def wait(self, longest: float = LONGEST) -> End:
        """Its end; one that does not come is made, and reported with code -SIGALRM."""
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return self._end(os.waitstatus_to_exitcode(status))
            if time.monotonic() - self.begun > longest:
                self.kill()
                os.waitpid(self.pid, 0)
                return self._end(-signal.SIGALRM)
            time.sleep(0.005)

    def kill_after(self, seconds: float, family: bool = True) -> End:
        """SIGKILL then, unless it has ended; ``family``: its children as well, at the same moment."""
        while time.monotonic() - self.begun < seconds:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return self._end(os.waitstatus_to_exitcode(status))
            time.sleep(0.001)
        self.kill(family)
        _, status = os.waitpid(self.pid, 0)
        return self._end(os.waitstatus_to_exitcode(status))

    def kill(self, family: bool = True) -> None:
        members = self.members() if family else []
        os.kill(self.pid, signal.SIGKILL)
        for member in members:
            end(member)

    def members(self) -> list[psutil.Process]:
        """Its children, and theirs."""
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _end(self, code: int) -> End:
        text = self.output.read_text(errors="replace") if self.output.exists() else ""
        return End(code, text, time.monotonic() - self.begun)


def end(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def geq(*arguments: str | Path, before: Callable[[], object] | None = None) -> Callable[[], int]:
    """The command line; ``before`` is done first, in the child."""

    def work() -> int:
        from geq.cli import main

        if before is not None:
            before()
        return main([str(argument) for argument in arguments])

    return work


def done(work: Callable[[], int], output: Path) -> End:
    """Undisturbed; an end that is not good is a fault of the attack itself."""
    ended = Child(work, output).wait()
    if ended.code != 0:
        raise RuntimeError(f"an undisturbed child ended with {ended.code}:\n{ended.text[-3000:]}")
    return ended
