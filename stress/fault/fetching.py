"""``geq data fetch`` from a slow server of this machine, killed again and again."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from stress.fault.child import done, geq
from stress.fault.event import die_before
from stress.fault.scale import Kills, Scale
from stress.part import Row

NAME, FILES, SIZE = "small", 24, 40_000
BLOCK, PAUSE = 32_000, 0.004
"""The server sends so many bytes at a time, and rests between."""


def attack(scale: Scale) -> Iterator[Row]:
    folder, chance = scale.within("data"), scale.random("fetching")
    contents = {f"{NAME}/{number:02}.bin": chance.randbytes(SIZE) for number in range(FILES)}
    archive = packed(contents)
    with serving(archive) as address:
        whole = folder / "whole"
        undisturbed = done(command(address, archive, whole), folder / "whole.txt")
        kills = Kills(scale.pick(2, 30))
        root = kills.often(
            folder,
            lambda root, at: command(address, archive, root, at),
            lambda: chance.uniform(0.01, 0.6 * undisturbed.seconds),
            lambda: chance.randrange(FILES + 12),
            lambda root: wrong(root, contents) if (root / NAME).exists() else [],
        )
        kills.problems += wrong(root, contents)
        kills.problems += [f"left over: {p.name}" for p in root.iterdir() if p.name != NAME]
    yield kills.row(
        "fetching a dataset, killed",
        "the folder is there with every byte or not at all; what had arrived was used; nothing left over",
    )


def packed(contents: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def wrong(root: Path, contents: dict[str, bytes]) -> list[str]:
    there = {str(path.relative_to(root)): path for path in (root / NAME).rglob("*") if path.is_file()}
    if set(there) != set(contents):
        return [f"{len(there)} of {len(contents)} files"]
    return [name for name, path in there.items() if path.read_bytes() != contents[name]]


def command(address: str, archive: bytes, root: Path, at: int | None = None) -> Callable[[], int]:
    def before() -> None:
        from geq.data.source import SOURCES, Download, Source

        md5 = hashlib.md5(archive, usedforsecurity=False).hexdigest()
        SOURCES[NAME] = Source((Download(f"http://official.invalid/{NAME}.tar.gz", md5),), NAME)
        if at is not None:
            die_before(at, root)

    told = ["data", "fetch", NAME, "--mirror", address, "--data-root", str(root), "--quiet"]
    return geq(*told, before=before)


@contextmanager
def serving(archive: bytes) -> Iterator[str]:
    """The address of a server that sends ``archive``, in a process of its own."""

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
            if begin >= len(archive):
                self.send_error(416)
                return
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(archive) - begin))
            self.send_header("Content-Range", f"bytes {begin}-{len(archive) - 1}/{len(archive)}")
            self.end_headers()
            try:
                for place in range(begin, len(archive), BLOCK):
                    self.wfile.write(archive[place : place + BLOCK])
                    time.sleep(PAUSE)
            except OSError:
                return  # who asked was killed

        def log_message(self, format: str, *arguments: object) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Slow)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        server.serve_forever()
        os._exit(0)
    server.server_close()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
