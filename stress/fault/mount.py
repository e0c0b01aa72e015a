"""File systems of this process and its children alone: small ones that fill, and read-only views.

They need Linux and the rights of root; elsewhere ``possible()`` is false and other means are used.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

NEW_NAMESPACE = 0x00020000
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 4096, 16384, 1 << 18
LAZY = 2


@cache
def own_mounts() -> bool:
    """Leave the mounts of everybody else; whether that is possible."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return False
    system = ctypes.CDLL(None, use_errno=True)
    if system.unshare(NEW_NAMESPACE) != 0 or not mount("none", Path("/"), "", RECURSIVE | PRIVATE):
        return False
    with tempfile.TemporaryDirectory() as folder:
        tried = mount("tmpfs", Path(folder), "tmpfs", 0, "size=64k")
        if tried:
            unmount(Path(folder))
    return tried


def mount(source: str, place: Path, kind: str, flags: int, data: str = "") -> bool:
    system = ctypes.CDLL(None, use_errno=True)
    told = [os.fsencode(source), os.fsencode(place), kind.encode()]
    return int(system.mount(*told, ctypes.c_ulong(flags), data.encode())) == 0


def unmount(place: Path) -> None:
    ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(place), LAZY)


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[bool]:
    """``place`` on a disk of ``size`` bytes; false where that is not possible."""
    place.mkdir(parents=True, exist_ok=True)
    there = own_mounts() and mount("tmpfs", place, "tmpfs", 0, f"size={size}")
    try:
        yield there
    finally:
        if there:
            unmount(place)


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """``place`` cannot be written: by a mount, or for others than root by its permissions."""
    if own_mounts():
        mount(str(place), place, "", BIND)
        mount(str(place), place, "", BIND | REMOUNT | READ_ONLY)
        try:
            yield
        finally:
            unmount(place)
        return
    folders = [place, *(path for path in place.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        yield
    finally:
        for folder in folders:
            folder.chmod(0o755)
