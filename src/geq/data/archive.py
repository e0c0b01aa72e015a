"""Safe unpacking of an untrusted tar archive, read as a stream of bounded length.

Only plain files and folders are taken, each below the target: no links, no devices, no absolute or climbing
paths, no more bytes than announced. Nothing appears under its final name before all of it is there.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import IO

from geq.atomic_io import STORAGE
from geq.errors import DataError, GeqError, one_line

OPENERS = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
"""First bytes of a packed file -> what unpacks it."""
PIECE = 1 << 22
"""Maximum bytes of one read. A tar archive that requests more does so for the name of a file."""
RATIO, SMALL = 100, 1 << 26
"""Maximum ratio of unpacked to packed size of an archive of images, unless it is small."""


class BoundedStream(io.RawIOBase):
    """Reads a file, unpacked if it is packed, up to ``largest`` bytes; beyond them is an error.

    Args:
        path: of the file.
        largest: bytes that may come out; less for a file that is too small to hold so much.
    """

    def __init__(self, path: Path, largest: int) -> None:
        super().__init__()
        self.path, self.place = path, 0
        self.largest = min(largest, max(SMALL, RATIO * path.stat().st_size))
        with path.open("rb") as file:
            start = file.read(8)
        opener = next((opener for first, opener in OPENERS.items() if start.startswith(first)), None)
        self.file: IO[bytes] = path.open("rb") if opener is None else opener(path, "rb")  # type: ignore[operator]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Forward only by reading, so that what is skipped is counted as well."""
        if whence == os.SEEK_END:
            raise OSError("a stream has no end that is known before")
        target = offset + (self.place if whence == os.SEEK_CUR else 0)
        if target < self.place:
            self.file.seek(target)
            self.place = target
        while self.place < target and self.read(min(1 << 20, target - self.place)):
            pass
        return self.place

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0 or size > PIECE:
            raise DataError(f"{self.path} has a header of more than {PIECE} bytes: it was not unpacked")
        data = self.file.read(size)
        self.place += len(data)
        if self.place > self.largest:
            raise DataError(f"{self.path} unpacks to more than {self.largest} bytes: it was not unpacked")
        return data

    def close(self) -> None:
        self.file.close()
        super().close()


LARGEST = 50 << 30
"""Bytes that an archive may unpack to."""


def unpack(archive: Path, root: Path, *, largest: int = LARGEST) -> list[Path]:
    """Unpack ``archive`` below ``root`` and give the top-level paths that it made."""
    root.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=staging_prefix(archive.name), dir=root))
    try:
        _extract(archive, staging, largest)
        made = sorted(staging.iterdir())
        for path in made:
            if (root / path.name).exists():
                raise DataError(
                    f"{root / path.name} exists already: remove it, or fetch to another data root"
                )
        sync_everything()
        for path in made:
            os.replace(path, root / path.name)
        return [root / path.name for path in made]
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def staging_prefix(archive: str) -> str:
    """Return the prefix of the folder into which an archive is unpacked; a killed process leaves one."""
    return f".unpacking-{archive}-"


def sync_everything() -> None:
    """Force what was written to the disk, so that no name outlives its content in a power failure."""
    if hasattr(os, "sync"):  # not on Windows
        os.sync()


def _extract(archive: Path, target: Path, largest: int) -> None:
    total = 0
    try:
        with BoundedStream(archive, largest) as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
            while (member := tar.next()) is not None:
                # It would remember each of them.
                tar.members.clear()  # type: ignore[attr-defined]
                path = target / _safe_name(member, archive)
                if member.isdir():
                    path.mkdir(parents=True, exist_ok=True)
                    continue
                total += member.size
                if total > largest:
                    raise DataError(f"{archive} unpacks to more than {largest} bytes: it was not unpacked")
                content = tar.extractfile(member)
                if content is None:
                    raise DataError(f"{archive}: {member.name} has no content")
                path.parent.mkdir(parents=True, exist_ok=True)
                with content, path.open("xb") as file:
                    shutil.copyfileobj(content, file, 1 << 20)
    except GeqError:
        raise
    except Exception as error:  # besides those of tarfile, those of three kinds of packing and of odd names
        if getattr(error, "errno", None) in STORAGE:
            raise  # the archive is right, there is no place for it
        raise DataError(
            f"{archive} cannot be unpacked: {one_line(error)}; remove it and fetch it again"
        ) from error


def _safe_name(member: tarfile.TarInfo, archive: Path) -> PurePosixPath:
    if not (member.isfile() or member.isdir()) or member.issparse():
        raise DataError(
            f"{archive}: {member.name!r} is a link, a device or a file with holes; such an archive is not "
            "unpacked"
        )
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or "\\" in member.name or ":" in member.name:
        raise DataError(
            f"{archive}: {member.name} would be written outside of the data root; it is not unpacked"
        )
    return name
