"""The content of an archive as a stream that can neither grow without end nor be asked for all at once."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
from pathlib import Path
from typing import IO

from geq.errors import DataError

OPENERS = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
"""First bytes of a packed file -> what unpacks it."""
PIECE = 1 << 22
"""Bytes that may be wanted at once. A tar archive that wants more wants them for the name of a file."""
RATIO, SMALL = 100, 1 << 26
"""No archive of images unpacks to more than so many times its size, unless it is small."""


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
