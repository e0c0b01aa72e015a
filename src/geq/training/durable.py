"""Files that are either whole or not there: written beside their place, forced to the disk, then renamed."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from geq.error import CheckpointError, GeqError

ADVICE = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the disk quota is used up: free some space",
    errno.EFBIG: "the system does not allow a file of this size: raise the limit (ulimit -f)",
    errno.EROFS: "the file system is read-only: choose another folder with {option}",
    errno.EACCES: "the folder may not be written: choose another with {option}, or change its permissions",
    errno.EPERM: "the folder may not be written: choose another with {option}, or change its permissions",
    errno.ENOTDIR: "a part of that path is a file: choose another folder with {option}",
    errno.EEXIST: "a part of that path is a file: choose another folder with {option}",
}
"""Errors of the system that a person can do something about, and what."""


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


def sync_folder(folder: Path) -> None:
    """Force a rename to the disk; without this a power failure could undo it."""
    if os.name == "nt":
        return  # Windows has no handle of a folder to sync
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files that a killed process left."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


@contextmanager
def explained_write_errors(folder: Path, consequence: str, option: str = "--runs") -> Iterator[None]:
    """Turn a full disk and the like into an error that says what to do.

    Args:
        folder: that is written.
        consequence: what is safe.
        option: by which another folder can be chosen.
    """
    try:
        yield
    except GeqError:
        raise
    except Exception as problem:
        cause = _system_error(problem)
        if cause is None or cause.errno not in ADVICE:
            raise
        raise CheckpointError(
            f"{folder} cannot be written ({cause.strerror}): "
            f"{ADVICE[cause.errno].format(option=option)}. {consequence}"
        ) from problem


def _system_error(problem: BaseException | None) -> OSError | None:
    """The system's error in a chain of causes; safetensors and torch give only its text."""
    while problem is not None:
        if isinstance(problem, OSError) and problem.errno is not None:
            return problem
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS):
            if os.strerror(number) in str(problem):
                return OSError(number, os.strerror(number))
        problem = problem.__cause__ or problem.__context__
    return None
