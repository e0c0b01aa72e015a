from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from geq.data.archive import unpack
from geq.errors import DataError


def write(path: Path, *members: tarfile.TarInfo, content: bytes = b"content") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            member.size = len(content) if member.isfile() else 0
            tar.addfile(member, io.BytesIO(content))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, target, 0o4777
    return member


def everything(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_files_and_folders_are_unpacked(tmp_path: Path) -> None:
    archive = write(
        tmp_path / "a.tar.gz", entry("set", tarfile.DIRTYPE), entry("set/one"), entry("set/in/two")
    )
    assert unpack(archive, tmp_path / "root") == [tmp_path / "root" / "set"]
    assert everything(tmp_path / "root") == {"set/one", "set/in/two"}
    assert (tmp_path / "root" / "set" / "one").read_bytes() == b"content"
    assert not (tmp_path / "root" / "set" / "one").stat().st_mode & 0o6111, (
        "no rights are taken from an archive"
    )


@pytest.mark.parametrize(
    "bad",
    [
        entry("../outside"),
        entry("set/../../outside"),
        entry("/outside"),
        entry("C:/outside"),
        entry("set\\..\\outside"),
        entry("set/link", tarfile.SYMTYPE, "/etc/passwd"),
        entry("set/link", tarfile.LNKTYPE, "set/one"),
        entry("set/pipe", tarfile.FIFOTYPE),
        entry("set/device", tarfile.CHRTYPE),
    ],
    ids=lambda member: f"{member.name}-{member.type!r}",
)
def test_what_reaches_outside_or_links_is_refused_as_a_whole(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    root = tmp_path / "in" / "root"
    archive = write(tmp_path / "a.tar.gz", entry("set/one"), bad)
    with pytest.raises(DataError, match=r"a\.tar\.gz"):
        unpack(archive, root)
    assert everything(tmp_path) == {"a.tar.gz"}
    assert list(root.iterdir()) == []


def test_a_bomb_is_stopped(tmp_path: Path) -> None:
    archive = write(tmp_path / "a.tar.gz", entry("one"), entry("two"), content=bytes(1 << 20))
    with pytest.raises(DataError, match="unpacks to more than 1500000 bytes"):
        unpack(archive, tmp_path / "root", largest=1_500_000)
    assert everything(tmp_path / "root") == set()


def test_damage_leaves_nothing(tmp_path: Path) -> None:
    noise = bytes(n * 31 % 251 for n in range(100_000))
    archive = write(tmp_path / "a.tar.gz", entry("set/one"), entry("set/two"), content=noise)
    whole = archive.read_bytes()
    for raw in (whole[: len(whole) // 2], b"not an archive", b""):
        archive.write_bytes(raw)
        with pytest.raises(DataError, match="cannot be unpacked"):
            unpack(archive, tmp_path / "root")
        assert everything(tmp_path / "root") == set()


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "root" / "set").mkdir(parents=True)
    (tmp_path / "root" / "set" / "mine").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        unpack(write(tmp_path / "a.tar.gz", entry("set/one")), tmp_path / "root")
    assert everything(tmp_path / "root") == {"set/mine"}
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpack(write(tmp_path / "b.tar.gz", entry("new/one"), entry("new/one")), tmp_path / "root")


def test_a_name_of_many_megabytes_is_not_read_into_memory(tmp_path: Path) -> None:
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 5 << 20
    (tmp_path / "a.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(member.size))
    with pytest.raises(DataError, match="header of more than"):
        unpack(tmp_path / "a.tar", tmp_path / "root")


@pytest.mark.parametrize("packing", ["gz", "bz2", "xz"])
def test_damage_in_any_packing_is_told_in_words(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, f"w:{packing}") as tar:  # type: ignore[call-overload]
        member = entry("one")
        member.size = 100_000
        tar.addfile(member, io.BytesIO(bytes(n * n * 31 % 251 for n in range(100_000))))
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2 :] = bytes(reversed(raw[len(raw) // 2 :]))
    path.write_bytes(bytes(raw))
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpack(path, tmp_path / "root")
    assert everything(tmp_path / "root") == set()
