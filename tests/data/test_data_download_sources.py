from __future__ import annotations

import re
from pathlib import Path

import pytest

from geq.data.dataset_registry import dataset_names, load_dataset
from geq.data.download_sources import SOURCES, SYSTEM_FOLDERS, check_files, known_sizes
from geq.errors import DataError, OptionError


def test_every_named_dataset_can_be_fetched_or_says_how() -> None:
    for name in set(dataset_names()) - {"imagefolder", "hub"}:
        assert SOURCES[name].downloads or SOURCES[name].by_hand
    for source in SOURCES.values():
        sums = [item.md5 for item in source.downloads] + list(source.files.values())
        assert all(re.fullmatch("[0-9a-f]{32}", md5) for md5 in sums)
        assert all(item.url.startswith(("http://", "https://")) for item in source.downloads)


def test_damage_and_absence_are_seen(cifar10_root: Path) -> None:
    (cifar10_root / "cifar-10-batches-py" / "test_batch").unlink()
    statuses = [check.status for check in check_files("cifar10", cifar10_root)]
    assert statuses == ["differs"] * 5 + ["missing"]


def test_a_damaged_gzip_differs(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"damaged")
    checks = check_files("mnist", tmp_path)
    assert (checks[0].status, checks[0].found) == ("differs", "unreadable")
    assert [check.status for check in checks[1:]] == ["missing"] * 3


def test_absent_and_unknown_datasets(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="geq data fetch cifar100"):
        check_files("cifar100", tmp_path)
    with pytest.raises(OptionError, match="did you mean 'mnist'"):
        check_files("mnst", tmp_path)
    assert check_files("camvid", tmp_path) == []


def test_official_files_are_known_by_their_sizes(tmp_path: Path, cifar10_root: Path) -> None:
    assert known_sizes("digits", tmp_path) == {
        split: len(load_dataset("digits", split, validation=0)) for split in ("train", "test")
    }
    assert known_sizes("cifar100", tmp_path) == {}, "it is not there"
    assert known_sizes("cifar10", cifar10_root) is None, "smaller than the official one, so it must be read"
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    for name, images in (("train.bin", 50_000), ("test.bin", 10_000)):
        with (folder / name).open("wb") as file:
            file.truncate(images * 3074)
    assert known_sizes("cifar100", tmp_path) == {"train": 50_000, "test": 10_000}
    (folder / "test.bin").write_bytes(b"")
    assert known_sizes("cifar100", tmp_path) is None


@pytest.mark.data
@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_the_real_files_have_the_official_checksums(name: str, real_root: Path) -> None:
    checks = check_files(name, real_root)
    assert [check.status for check in checks] == ["ok"] * (6 if name == "cifar10" else 2)
    assert known_sizes(name, real_root) == {"train": 50_000, "test": 10_000}


@pytest.mark.data
def test_debians_files_have_the_official_content(tmp_path: Path) -> None:
    if not SYSTEM_FOLDERS["fashion_mnist"][0].is_dir():
        pytest.skip("the package dataset-fashion-mnist is not installed: skipping a check on the real files")
    assert [check.status for check in check_files("fashion_mnist", tmp_path)] == ["ok"] * 4
