"""Commands in forked children, killed at a moment or before an operation on files.

All modules are loaded already, so a child costs what it does. The process that forks must have no threads
that compute; see :mod:`stress.fault.campaign`.
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
"""Exit code of a command after an error that is meant for a person."""
WATCHED = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "ctypes.dlsym")
"""Audit events of operations on files; by the last, folders are exchanged in one step."""


@dataclass(frozen=True)
class End:
    """End of a child: its exit code (negative: the signal), and what it printed."""

    code: int
    text: str
    seconds: float

    @property
    def clear(self) -> bool:
        """Return whether it reported the problem in a sentence."""
        return self.code == CLEAR and "geq: error: " in self.text and "Traceback" not in self.text

    @property
    def failure(self) -> list[str]:
        """Its last words, unless it ended well."""
        return [] if self.code == 0 else [self.text[-300:]]

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Child:
    """A fork that does ``work``, which returns its exit code, and prints into the file ``output``."""

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
        """Return its end; one that does not come is forced, and reported with code -SIGALRM."""
        return self._within(longest) or self._end(self._kill() and -signal.SIGALRM)

    def kill_after(self, seconds: float, family: bool = True) -> End:
        """Send SIGKILL then, unless it has ended; ``family``: to its children at the same moment."""
        return self._within(seconds) or self._end(self._kill(family))

    def members(self) -> list[psutil.Process]:
        """Return its children, and theirs."""
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def _within(self, seconds: float) -> End | None:
        while time.monotonic() - self.begun < seconds:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return self._end(os.waitstatus_to_exitcode(status))
            time.sleep(0.001)
        return None

    def _kill(self, family: bool = True) -> int:
        members = self.members() if family else []
        os.kill(self.pid, signal.SIGKILL)
        for member in members:
            end(member)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _end(self, code: int) -> End:
        text = self.output.read_text(errors="replace") if self.output.exists() else ""
        return End(code, text, time.monotonic() - self.begun)


def end(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def geq(*arguments: str | Path, before: Callable[[], object] | None = None) -> Callable[[], int]:
    """Return the command line as the work of a child, which does ``before`` first."""

    def work() -> int:
        from geq.cli import main

        if before is not None:
            before()
        return main([str(argument) for argument in arguments])

    return work


def done(work: Callable[[], int], output: Path) -> End:
    """Run undisturbed; an end that is not good is a fault of the attack itself."""
    ended = Child(work, output).wait()
    if ended.code != 0:
        raise RuntimeError(f"an undisturbed child ended with {ended.code}:\n{ended.text[-3000:]}")
    return ended


def dying(number: int, folder: Path) -> Callable[[], None]:
    """Return a function that lets its process end at its ``number``-th operation (from 0) in ``folder``.

    Python calls audit hooks before each of them. A hook cannot be removed, so this belongs into a child.
    """

    def begin() -> None:
        left = number

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            if event in WATCHED and concerns(event, arguments, folder):
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1

        sys.addaudithook(hook)

    return begin


def concerns(event: str, arguments: tuple[object, ...], folder: Path) -> bool:
    if event == "ctypes.dlsym":
        return arguments[-1] == "renameat2"
    if event == "open" and not writes(arguments):
        return False
    return any(str(folder) in os.fsdecode(a) for a in arguments if isinstance(a, str | bytes | os.PathLike))


def writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
