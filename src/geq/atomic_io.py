"""Files that are either whole or not there: written beside their place, forced to the disk, then renamed."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from geq.errors import CheckpointError, GeqError

ADVICE = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the disk quota is used up: free some space",
    errno.EFBIG: "the system does not allow a file of this size: raise the limit (ulimit -f)",
    errno.EIO: "the disk reports an error: look at the system's log, and choose another with {option}",
    errno.EROFS: "the file system is read-only: choose another folder with {option}",
    errno.EACCES: "the folder may not be written: choose another with {option}, or change its permissions",
    errno.EPERM: "the folder may not be written: choose another with {option}, or change its permissions",
    errno.ENOTDIR: "a part of that path is a file: choose another folder with {option}",
    errno.EEXIST: "a part of that path is a file: choose another folder with {option}",
}
"""Errors of the system that a person can do something about, and what."""

STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Those that tell of the disk, whatever was being done."""

GONE = "the folder is gone: bring it back, or choose another with {option}"

EXCHANGE, HERE = 2, -100
"""RENAME_EXCHANGE and AT_FDCWD of Linux."""


def write_durably(path: Path, content: bytes) -> None:
    """Put ``content`` in place of ``path`` in one step: whoever reads sees the old file or the new one, also
    after a crash.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes private files
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_folder(new: Path, place: Path) -> None:
    """Put the folder ``new`` where ``place`` is, in one step; what was there is then ``new``.

    Where the system cannot exchange two folders, the old one is away for a moment.
    """
    if not place.exists():
        new.rename(place)
    elif not _exchange(new, place):
        aside = new.with_name(new.name + ".replaced")
        place.rename(aside)
        try:
            new.rename(place)
        except BaseException:
            aside.rename(place)
            raise
        aside.rename(new)
    sync_folder(place.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths atomically and return whether the system could; only Linux can."""
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    return rename is not None and rename(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE) == 0


def sync_folder(folder: Path) -> None:
    """Force a rename to the disk; without this a power failure could undo it."""
    if os.name == "nt":
        return  # Windows has no handle of a folder to sync
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_leftovers(folder: Path, pattern: str = ".*.tmp") -> None:
    """Delete the temporary files that a killed process left; only under a lock that it would have held."""
    for path in folder.glob(pattern):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def exclusively(lock: Path) -> Iterator[None]:
    """One process at a time, the others wait; the system frees the lock when a process dies.

    Args:
        lock: a file, made if missing and left there; or a folder that exists.
    """
    try:
        import fcntl
    except ImportError:  # Windows: no such lock
        yield
        return
    no_link = getattr(os, "O_NOFOLLOW", 0)  # a link in its place would have another file opened or made
    while True:
        handle = os.open(lock, os.O_RDONLY if lock.is_dir() else os.O_RDWR | os.O_CREAT | no_link, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Whoever had it may have deleted it: the next process would lock another file of that name.
            if lock.exists() and os.path.samestat(os.fstat(handle), lock.stat()):
                yield
                return
        finally:
            os.close(handle)


@contextmanager
def explained_write_errors(
    folder: Path, consequence: str, option: str = "--runs", kind: type[GeqError] = CheckpointError
) -> Iterator[None]:
    """Turn a full disk and the like into an error that says what to do.

    Args:
        folder: that is written.
        consequence: what is safe.
        option: by which another folder can be chosen.
        kind: of the error.
    """
    try:
        yield
    except GeqError:
        raise
    except Exception as problem:
        cause = _system_error(problem)
        advice = None if cause is None else _advice(cause, folder)
        if cause is None or advice is None:
            raise
        raise kind(
            f"{folder} cannot be written ({cause.strerror}): {advice.format(option=option)}. {consequence}"
        ) from problem


def _advice(cause: OSError, folder: Path) -> str | None:
    if cause.errno == errno.ENOENT and not folder.exists():
        return GONE
    return ADVICE.get(cause.errno or 0)


def _system_error(problem: BaseException | None) -> OSError | None:
    """The system's error in a chain of causes; safetensors and torch give only its text."""
    while problem is not None:
        if isinstance(problem, OSError) and problem.errno is not None:
            return problem
        for number in STORAGE:
            if os.strerror(number) in str(problem):
                return OSError(number, os.strerror(number))
        problem = problem.__cause__ or problem.__context__
    return None
