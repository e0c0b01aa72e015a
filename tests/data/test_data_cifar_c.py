from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from geq.data.corruption import cifar_c, corrupt
from geq.data.corruption.cifar_c import read_cifar_c, write_cifar_c
from geq.data.dataset import ImageDataset
from geq.data.dataset_registry import load_dataset
from geq.errors import DataError, OptionError

NAMES = ["contrast", "gaussian_noise"]


@pytest.fixture
def clean(cifar10_root: Path) -> Any:
    return load_dataset("cifar10", "test", root=cifar10_root)


def test_the_published_layout_is_written_and_read_back(clean: ImageDataset, tmp_path: Path) -> None:
    reports: list[tuple[str, int, int]] = []
    made = write_cifar_c(clean, tmp_path / "c", names=NAMES, seed=4, progress=lambda *r: reports.append(r))
    assert [path.name for path in made] == ["contrast.npy", "gaussian_noise.npy"]
    assert np.load(tmp_path / "c" / "contrast.npy").shape == (100, 32, 32, 3)
    assert np.load(tmp_path / "c" / "labels.npy").tolist() == clean.labels.tolist() * 5
    assert reports[-1] == ("gaussian_noise", 100, 100)
    for severity in (1, 5):
        part = read_cifar_c(tmp_path / "c", "gaussian_noise", severity)
        expected = corrupt(clean.images.permute(0, 2, 3, 1).numpy(), "gaussian_noise", severity, 4)
        assert torch.equal(part.images, torch.from_numpy(expected.transpose(0, 3, 1, 2)))
        assert torch.equal(part.labels, clean.labels)
    assert {path.suffix for path in (tmp_path / "c").iterdir()} == {".npy", ".json"}


class Interrupted(Exception):
    pass


def test_an_interrupted_run_goes_on_to_the_same_bytes(
    clean: ImageDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cifar_c, "CHUNK", 7)
    write_cifar_c(clean, tmp_path / "whole", names=NAMES)
    corrupted = 0

    def count(name: str, done: int, total: int) -> None:
        nonlocal corrupted
        corrupted += 1

    def stop(name: str, done: int, total: int) -> None:
        if name == "gaussian_noise" and done >= 34:
            raise Interrupted

    with pytest.raises(Interrupted):
        write_cifar_c(clean, tmp_path / "parts", names=NAMES, progress=stop)
    assert not (tmp_path / "parts" / "gaussian_noise.npy").exists()
    made = write_cifar_c(clean, tmp_path / "parts", names=NAMES, progress=count)
    assert [path.name for path in made] == ["gaussian_noise.npy"]
    assert corrupted == 10  # of 15 chunks, 7 + 7 + 6 a severity, five were done
    for name in (*NAMES, "labels"):
        assert (tmp_path / "parts" / f"{name}.npy").read_bytes() == (
            tmp_path / "whole" / f"{name}.npy"
        ).read_bytes()
    assert write_cifar_c(clean, tmp_path / "parts", names=NAMES) == []


def test_a_damaged_part_is_begun_again(clean: ImageDataset, tmp_path: Path) -> None:
    write_cifar_c(clean, tmp_path / "c", names=["contrast"])
    good = (tmp_path / "c" / "contrast.npy").read_bytes()
    (tmp_path / "c" / "contrast.npy").rename(tmp_path / "c" / "contrast.npy.part")
    (tmp_path / "c" / "contrast.npy.part").write_bytes(good[:500])
    (tmp_path / "c" / "contrast.done").write_text("60")
    write_cifar_c(clean, tmp_path / "c", names=["contrast"])
    assert (tmp_path / "c" / "contrast.npy").read_bytes() == good


def test_another_seed_or_foreign_files_are_not_mixed(clean: ImageDataset, tmp_path: Path) -> None:
    write_cifar_c(clean, tmp_path / "c", names=["contrast"], seed=1)
    assert json.loads((tmp_path / "c" / "geq.json").read_text())["seed"] == 1
    with pytest.raises(DataError, match="choose another folder"):
        write_cifar_c(clean, tmp_path / "c", names=["fog"], seed=2)
    with pytest.raises(DataError, match="choose another folder"):
        write_cifar_c(clean.subset(range(10)), tmp_path / "c", names=["fog"], seed=1)
    (tmp_path / "published").mkdir()
    np.save(tmp_path / "published" / "fog.npy", np.zeros(3))
    with pytest.raises(DataError, match="from elsewhere"):
        write_cifar_c(clean, tmp_path / "published")
    with pytest.raises(OptionError, match="did you mean 'fog'"):
        write_cifar_c(clean, tmp_path / "c", names=["fogg"])


def test_bad_files_are_refused(clean: ImageDataset, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"fog\.npy is missing: run 'geq data corrupt'"):
        read_cifar_c(tmp_path, "fog", 1)
    np.save(tmp_path / "labels.npy", np.zeros(10, dtype=np.uint8))
    for array, words in (
        (np.zeros((10, 4, 4, 3)), "unsigned bytes: got float64"),
        (np.zeros((9, 4, 4, 3), dtype=np.uint8), r"got \(9, 4, 4, 3\) and \(10,\)"),
        (np.zeros((10, 4, 4), dtype=np.uint8), "5 × n RGB images"),
        (np.array([{}], dtype=object), "not a whole array of numbers"),
    ):
        np.save(tmp_path / "fog.npy", array, allow_pickle=True)
        with pytest.raises(DataError, match=words):
            read_cifar_c(tmp_path, "fog", 1)
    np.save(tmp_path / "fog.npy", np.zeros((10, 4, 4, 3), dtype=np.uint8))
    raw = (tmp_path / "fog.npy").read_bytes()
    (tmp_path / "fog.npy").write_bytes(raw[:-10])
    with pytest.raises(DataError, match="not a whole array"):
        read_cifar_c(tmp_path, "fog", 1)
    (tmp_path / "fog.npy").write_bytes(raw)
    np.save(tmp_path / "labels.npy", np.full(10, 10, dtype=np.uint8))
    with pytest.raises(DataError, match=r"labels must lie in 0\.\.9"):
        read_cifar_c(tmp_path, "fog", 1)
    with pytest.raises(OptionError, match="severity"):
        read_cifar_c(tmp_path, "fog", 6)
    with pytest.raises(OptionError, match="unknown corruption"):
        read_cifar_c(tmp_path, "rain", 1)


@pytest.mark.parametrize("raw", [b"", b"PK\x03\x04", b"\x93NUMPY"])
def test_what_is_no_array_at_all_is_told_in_words(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "fog.npy").write_bytes(raw)
    with pytest.raises(DataError, match="not a whole array"):
        read_cifar_c(tmp_path, "fog", 1)


def test_an_archive_of_arrays_is_no_array(tmp_path: Path) -> None:
    with (tmp_path / "fog.npy").open("wb") as file:
        np.savez(file, np.zeros(3, dtype=np.uint8))
    with pytest.raises(DataError, match="not a whole array"):
        read_cifar_c(tmp_path, "fog", 1)
