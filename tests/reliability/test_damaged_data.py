"""Fetching, corrupting, recording and reporting after a kill at a bad moment, and on a disk that is full."""

from __future__ import annotations

import hashlib
import io
import resource
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from geq.data.cifar import CIFAR10_CLASSES, CIFAR10_STATISTICS
from geq.data.corruption import cifar_c
from geq.data.corruption.cifar_c import write_cifar_c
from geq.data.dataset import ImageDataset
from geq.data.download_sources import SOURCES, Download, Source
from geq.data.fetch import fetch
from geq.errors import DataError
from geq_papers.command.report import write as write_page
from geq_papers.experiment.experiment_registry import find_experiment
from geq_papers.experiment.plan import plan_job

NOWHERE = "http://127.0.0.1:9"
"""Where nobody listens."""


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The system refuses larger ones within a write, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A dataset of one file of 300 kB, packed small."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo("small/file")
        member.size = 300_000
        tar.addfile(member, io.BytesIO(bytes(300_000)))
    md5 = hashlib.md5(buffer.getvalue()).hexdigest()
    source = Source((Download("http://official.invalid/small.tar.gz", md5),), "small")
    monkeypatch.setitem(SOURCES, "small", source)
    return buffer.getvalue()


def test_an_archive_that_was_not_unpacked_is_not_fetched_again(tmp_path: Path, archive: bytes) -> None:
    (tmp_path / "small.tar.gz").write_bytes(archive)
    left = tmp_path / ".unpacking-small.tar.gz-killed"
    left.mkdir()
    (left / "half").write_bytes(b"half")
    assert fetch("small", tmp_path, mirror=NOWHERE) == [tmp_path / "small"]
    assert [path.name for path in tmp_path.iterdir()] == ["small"]


def test_a_full_disk_is_not_blamed_on_the_archive(tmp_path: Path, archive: bytes) -> None:
    (tmp_path / "small.tar.gz").write_bytes(archive)
    with (
        largest_file(100_000),
        pytest.raises(DataError, match=r"cannot be written \(File too large\).*What has arrived is kept"),
    ):
        fetch("small", tmp_path, mirror=NOWHERE)
    assert not (tmp_path / "small").exists()
    assert fetch("small", tmp_path, mirror=NOWHERE) == [tmp_path / "small"]


def test_a_data_root_that_cannot_be_made_is_named(tmp_path: Path, archive: bytes) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"a part of that path is a file.*--data_root"):
        fetch("small", tmp_path / "file" / "root", mirror=NOWHERE)


@pytest.fixture
def clean() -> ImageDataset:
    images = torch.arange(20 * 3072, dtype=torch.int64).remainder(251).to(torch.uint8).view(20, 3, 32, 32)
    return ImageDataset(images, torch.arange(20) % 10, CIFAR10_CLASSES, CIFAR10_STATISTICS, "cifar10", "test")


def test_the_mark_of_an_earlier_file_says_nothing_of_a_new_one(
    clean: ImageDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that was cut is begun again, and that is interrupted: then the old mark must be gone."""
    (good,) = write_cifar_c(clean, tmp_path / "good", names=["contrast"])
    place = tmp_path / "c"
    write_cifar_c(clean, place, names=["contrast"])
    (place / "contrast.npy").unlink()
    (place / "contrast.npy.part").write_bytes(good.read_bytes()[:500])
    (place / "contrast.done").write_text("100")

    def stop(*arguments: object, **more: object) -> np.ndarray:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cifar_c, "corrupt", stop)
        with pytest.raises(KeyboardInterrupt):
            write_cifar_c(clean, place, names=["contrast"])
    write_cifar_c(clean, place, names=["contrast"])
    assert (place / "contrast.npy").read_bytes() == good.read_bytes()


def test_corrupting_on_a_full_disk_ends_with_a_sentence(clean: ImageDataset, tmp_path: Path) -> None:
    """And not with the end of the process, as writing into mapped memory did."""
    (good,) = write_cifar_c(clean, tmp_path / "good", names=["contrast"])
    with largest_file(100_000), pytest.raises(DataError, match=r"cannot be written .*--output|ulimit"):
        write_cifar_c(clean, tmp_path / "c", names=["contrast"])
    assert not (tmp_path / "c" / "contrast.npy").exists()
    write_cifar_c(clean, tmp_path / "c", names=["contrast"])
    assert (tmp_path / "c" / "contrast.npy").read_bytes() == good.read_bytes()
    there = sorted(path.name for path in (tmp_path / "c").iterdir())
    assert there == ["contrast.npy", "geq.json", "labels.npy"]


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_page(page, "old")
    with largest_file(1000), pytest.raises(DataError, match=r"page\.html cannot be written"):
        write_page(page, "new " * 1000)
    assert page.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("content", [b"", b'{"arm": "resn', b"\xff\xfe"])
def test_a_cut_record_is_one_that_is_still_to_be_made(content: bytes, tmp_path: Path) -> None:
    job = plan_job(find_experiment("geq-table-1a"), "smoke", "resnet", 0, tmp_path)
    assert job.made() is None
    job.folder.path.mkdir(parents=True)
    job.record_file.write_bytes(content)
    assert job.made() is None
