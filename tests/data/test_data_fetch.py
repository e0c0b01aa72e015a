"""Downloads, from a server on this machine that behaves badly in the ways servers do."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from geq.atomic_io import exclusively
from geq.data import fetch as fetching
from geq.data.download_sources import SOURCES, Download, Source
from geq.data.fetch import download, fetch
from geq.errors import DataError, OptionError

CONTENT = bytes(range(256)) * 4000
MD5 = hashlib.md5(CONTENT).hexdigest()


@dataclass
class Behaviour:
    """Files of the server and its failures."""

    files: dict[str, bytes] = field(default_factory=lambda: {"/file.bin": CONTENT})
    drop_after: list[int] = field(default_factory=list)
    ranges: bool = True
    length: bool = True
    status: int = 0
    seen: list[str | None] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        behaviour: Behaviour = self.server.behaviour  # type: ignore[attr-defined]
        wanted = self.headers.get("Range")
        behaviour.seen.append(wanted)
        content = behaviour.files.get(self.path)
        if content is None or behaviour.status:
            self.send_error(behaviour.status or 404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and behaviour.ranges else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if behaviour.length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        stop = start + behaviour.drop_after.pop(0) if behaviour.drop_after else len(content)
        self.wfile.write(content[start:stop])

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[tuple[str, Behaviour]]:
    behaviour = Behaviour()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.behaviour = behaviour  # type: ignore[attr-defined]
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}", behaviour
        running.shutdown()
        thread.join()


def test_a_file_arrives_with_progress(server: tuple[str, Behaviour], tmp_path: Path) -> None:
    address, _ = server
    reports: list[tuple[str, int, int | None]] = []
    path = download(f"{address}/file.bin", tmp_path / "file.bin", MD5, progress=lambda *r: reports.append(r))
    assert path.read_bytes() == CONTENT
    assert reports[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin"]


def test_a_dropped_connection_is_resumed_where_it_broke(
    server: tuple[str, Behaviour], tmp_path: Path
) -> None:
    address, behaviour = server
    behaviour.drop_after = [300_000, 200_000]
    path = download(f"{address}/file.bin", tmp_path / "file.bin", MD5)
    assert path.read_bytes() == CONTENT
    assert behaviour.seen == [None, "bytes=300000-", "bytes=500000-"]


def test_many_drops_are_endured_while_something_arrives(
    server: tuple[str, Behaviour], tmp_path: Path
) -> None:
    address, behaviour = server
    behaviour.drop_after = [50_000] * 15
    assert download(f"{address}/file.bin", tmp_path / "file.bin", MD5).read_bytes() == CONTENT


def test_a_later_call_goes_on_with_what_is_there(server: tuple[str, Behaviour], tmp_path: Path) -> None:
    address, behaviour = server
    behaviour.drop_after = [400_000] + [0] * fetching.ATTEMPTS
    with pytest.raises(DataError, match=r"could not be read to its end.*run the command again"):
        download(f"{address}/file.bin", tmp_path / "file.bin", MD5)
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin.part"]
    behaviour.seen.clear()
    behaviour.drop_after.clear()
    assert download(f"{address}/file.bin", tmp_path / "file.bin", MD5).read_bytes() == CONTENT
    assert behaviour.seen == ["bytes=400000-"]


def test_a_server_without_ranges_starts_again(server: tuple[str, Behaviour], tmp_path: Path) -> None:
    address, behaviour = server
    behaviour.ranges = False
    behaviour.drop_after = [300_000]
    assert download(f"{address}/file.bin", tmp_path / "file.bin", MD5).read_bytes() == CONTENT


def test_a_part_that_is_whole_needs_no_more(server: tuple[str, Behaviour], tmp_path: Path) -> None:
    address, _ = server
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert download(f"{address}/file.bin", tmp_path / "file.bin", MD5).read_bytes() == CONTENT


@pytest.mark.parametrize("length", [True, False])
def test_a_wrong_checksum_leaves_nothing(server: tuple[str, Behaviour], tmp_path: Path, length: bool) -> None:
    address, behaviour = server
    behaviour.length = length
    behaviour.files["/file.bin"] = CONTENT[:-1] + b"x"
    with pytest.raises(DataError, match=f"the official one has {MD5}"):
        download(f"{address}/file.bin", tmp_path / "file.bin", MD5)
    assert list(tmp_path.iterdir()) == []


def test_a_cut_answer_of_unknown_length_is_caught_by_the_checksum(
    server: tuple[str, Behaviour], tmp_path: Path
) -> None:
    address, behaviour = server
    behaviour.length = False
    behaviour.drop_after = [100]
    with pytest.raises(DataError, match="the official one has"):
        download(f"{address}/file.bin", tmp_path / "file.bin", MD5)
    assert list(tmp_path.iterdir()) == []


def test_refusals_are_told(server: tuple[str, Behaviour], tmp_path: Path) -> None:
    address, behaviour = server
    with pytest.raises(DataError, match=r"none\.bin answered 404"):
        download(f"{address}/none.bin", tmp_path / "none.bin", MD5)
    behaviour.status = 503
    with pytest.raises(DataError, match="answered 503"):
        download(f"{address}/file.bin", tmp_path / "file.bin", MD5)
    with pytest.raises(OptionError, match="http://"):
        download("file:///etc/passwd", tmp_path / "file.bin", MD5)


def test_a_silent_address_is_told(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as closed:
        address = f"http://127.0.0.1:{closed.server_address[1]}"
    with pytest.raises(DataError, match="could not be read to its end"):
        download(f"{address}/file.bin", tmp_path / "file.bin", MD5, timeout=2.0)


def test_an_endless_answer_is_stopped(
    server: tuple[str, Behaviour], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "LARGEST", 500_000)
    with pytest.raises(DataError, match="sends more than 500000 bytes"):
        download(f"{server[0]}/file.bin", tmp_path / "file.bin", MD5)
    assert not (tmp_path / "file.bin").exists()


def packed(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def small_source(server: tuple[str, Behaviour], monkeypatch: pytest.MonkeyPatch) -> str:
    """The dataset 'small': an archive of one folder and a single file, on the local server."""
    address, behaviour = server
    archive = packed({"small/a.txt": b"a", "small/deep/b.txt": b"b"})
    behaviour.files = {"/small.tar.gz": archive, "/extra.bin": CONTENT}
    source = Source(
        (
            Download("http://official.invalid/small.tar.gz", hashlib.md5(archive).hexdigest()),
            Download("http://official.invalid/extra.bin", MD5, "more"),
        ),
        gives="more/extra.bin",
    )
    monkeypatch.setitem(SOURCES, "small", source)
    return address


def test_a_dataset_is_fetched_unpacked_and_left_alone_afterwards(
    small_source: str, server: tuple[str, Behaviour], tmp_path: Path
) -> None:
    made = fetch("small", tmp_path, mirror=small_source)
    assert {path.relative_to(tmp_path).as_posix() for path in made} == {"small", "more/extra.bin"}
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {"small/a.txt", "small/deep/b.txt", "more/extra.bin"}
    server[1].seen.clear()
    assert fetch("small", tmp_path, mirror=small_source) == []
    assert server[1].seen == []


def test_what_cannot_be_fetched_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="register at"):
        fetch("cityscapes", tmp_path)
    with pytest.raises(OptionError, match="did you mean 'cifar10'"):
        fetch("cifar1", tmp_path)


@pytest.mark.parametrize("there", [True, False], ids=["root is there", "root is not"])
def test_offline_nothing_is_left_behind(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Port 1 of this machine answers nobody: as without a network."""
    address = "http://127.0.0.1:1/file.gz"
    monkeypatch.setitem(SOURCES, "small", Source((Download(address, MD5, "small"),), "small/file.gz"))
    root = tmp_path / "deep" / "root"
    if there:
        root.mkdir(parents=True)
        (root / "mine").mkdir()
    with pytest.raises(DataError, match="nothing arrived: run the command again"):
        fetch("small", root, timeout=0.2)
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
    assert left == (["deep", "deep/root", "deep/root/mine"] if there else [])


def test_a_lock_that_was_deleted_meanwhile_is_made_again(tmp_path: Path) -> None:
    """Two that wait for a deleted lock would otherwise hold two different ones."""
    lock, inside, most = tmp_path / ".lock", [0], [0]
    guard = threading.Lock()

    def work() -> None:
        for _ in range(50):
            with exclusively(lock):
                with guard:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                time.sleep(0.0002)
                with guard:
                    inside[0] -= 1
                lock.unlink(missing_ok=True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
