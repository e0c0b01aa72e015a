"""Downloads the official files: resumed when the connection drops, checked before they get their name."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from geq.atomic_io import ADVICE, exclusively, explained_write_errors, remove_leftovers, sync_folder
from geq.data.archive import LARGEST, staging_prefix, unpack
from geq.data.dataset_options import OPTION
from geq.data.download_sources import Download, md5_of, source_of
from geq.errors import DataError, OptionError

Progress = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes that are there and the bytes there will be (None: unknown)."""
ATTEMPTS = 5
"""Connections in a row that may bring nothing."""
TIMEOUT = 30.0
BLOCK = 1 << 18


def fetch(
    name: str,
    root: Path,
    *,
    mirror: str | None = None,
    progress: Progress | None = None,
    timeout: float = TIMEOUT,
) -> list[Path]:
    """Fetch the dataset ``name`` below ``root``; existing files are kept. Return the paths that
    are new.

    ``mirror`` is an address that holds the same file names as the official one.
    """
    source = source_of(name)
    if not source.downloads:
        raise DataError(f"{name} cannot be fetched by a program: {source.by_hand}")
    if (root / source.gives).exists():
        return []
    made: list[Path] = []
    safe = "What has arrived is kept: run the command again."
    with explained_write_errors(root, safe, OPTION, DataError), _without_empty_folders(root):
        root.mkdir(parents=True, exist_ok=True)
        lock = root / f".{name}.lock"
        with exclusively(lock):
            if (root / source.gives).exists():  # by now, from another process
                return []
            try:
                for item in source.downloads:
                    made += _bring(item, root, mirror, progress, timeout)
            finally:
                lock.unlink(missing_ok=True)  # a process that waits for it checks the files again
    return made


@contextmanager
def _without_empty_folders(root: Path) -> Iterator[None]:
    """Remove the folders that were made on the way, where an error left them empty."""
    absent = [place for place in (root, *root.parents) if not place.exists()]
    inside = set(root.iterdir()) if root.is_dir() else set()
    try:
        yield
    except BaseException:
        made = [place for place in root.iterdir() if place not in inside] if root.is_dir() else []
        for place in [*made, *absent]:
            with suppress(OSError):  # a file, a folder that holds something, or one that is gone
                place.rmdir()
        raise


def _bring(
    item: Download, root: Path, mirror: str | None, progress: Progress | None, timeout: float
) -> list[Path]:
    """One of the files, unpacked if it is an archive; the paths that are new."""
    address = f"{mirror.rstrip('/')}/{item.file_name}" if mirror else item.url
    target = root / item.folder / item.file_name
    if item.is_archive:
        remove_leftovers(root, f"{staging_prefix(item.file_name)}*")
        # One that is whole was not unpacked before its process was killed.
        if not (target.is_file() and _md5(target) == item.md5):
            download(address, target, item.md5, progress=progress, timeout=timeout)
        made = unpack(target, root)
        target.unlink()
        return made
    if target.exists():
        return []
    return [download(address, target, item.md5, progress=progress, timeout=timeout)]


def download(
    url: str, target: Path, md5: str, *, progress: Progress | None = None, timeout: float = TIMEOUT
) -> Path:
    """Bring ``url`` to ``target``. The bytes grow in ``target.part``, which a later call continues."""
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise OptionError(f"an address must start with http:// or https://: got {url}")
    part = target.with_name(target.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    report = progress or (lambda name, done, total: None)
    failure: Exception | None = None
    stalled = 0
    while stalled < ATTEMPTS:
        before = part.stat().st_size if part.exists() else 0
        try:
            if _continue(url, part, target.name, report, timeout):
                return _accept(part, target, md5, url)
            failure = ConnectionError("the connection was closed before the end")
        except urllib.error.HTTPError as error:
            message = f"{url} answered {error.code} {error.reason}: try later, or give a mirror"
            raise DataError(message) from error
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and error.errno in ADVICE:
                raise  # of the disk, not of the connection
            failure = error
        # A connection that brought something is worth another; one that brought nothing counts.
        stalled = 0 if part.exists() and part.stat().st_size > before else stalled + 1
    kept = f"what arrived is kept in {part}" if part.exists() else "nothing arrived"
    raise DataError(
        f"{url} could not be read to its end ({failure}); {kept}: run the command again to continue"
    ) from failure


def _continue(url: str, part: Path, name: str, report: Progress, timeout: float) -> bool:
    """Append what is missing; true when the server says that this is all."""
    done = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "geq", "Accept-Encoding": "identity"} | (
        {"Range": f"bytes={done}-"} if done else {}
    )
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416 and done:  # nothing beyond what we have: the checksum decides
            return True
        raise
    with response:
        if done and not _starts_at(response, done):
            done = 0  # the server sends it from the start
        length = response.headers.get("Content-Length")
        total = done + int(length) if length and length.isdecimal() else None
        with part.open("r+b" if done else "wb") as file:
            file.seek(done)
            while block := response.read(BLOCK):
                file.write(block)
                done += len(block)
                if done > LARGEST:
                    raise DataError(f"{url} sends more than {LARGEST} bytes: it was stopped; remove {part}")
                report(name, done, total)
    return total is None or done == total


def _starts_at(response: http.client.HTTPResponse, offset: int) -> bool:
    return response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {offset}-")


def _accept(part: Path, target: Path, md5: str, url: str) -> Path:
    found = _md5(part)
    if found != md5:
        part.unlink()
        raise DataError(
            f"{url} gave a file with md5 {found}; the official one has {md5}. It was removed: "
            "try again, or give a mirror"
        )
    with part.open("r+b") as file:
        os.fsync(file.fileno())
    os.replace(part, target)
    sync_folder(target.parent)
    return target


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return md5_of(file)
