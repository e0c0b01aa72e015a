"""SIGKILL at a chosen operation on files, rather than at a moment: just before the k-th one within a folder.

Python tells its audit hooks of every open, rename, removal and new folder before it happens. A hook cannot be
taken away again, so this belongs into a child.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

WATCHED = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "ctypes.dlsym")
"""The last is how folders are exchanged in one step."""


def die_before(number: int, folder: Path) -> None:
    """End this process at its ``number``-th operation (from 0) on what lies in ``folder``."""
    left = number

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in WATCHED and concerns(event, arguments, folder):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(hook)


def concerns(event: str, arguments: tuple[object, ...], folder: Path) -> bool:
    if event == "ctypes.dlsym":
        return arguments[-1] == "renameat2"
    if event == "open" and not writes(arguments):
        return False
    return any(str(folder) in os.fsdecode(a) for a in arguments if isinstance(a, str | bytes | os.PathLike))


def writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
