from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from geq.data.cifar import CIFAR100_CLASSES, CIFAR100_COARSE, COARSE_OF_FINE, LAYOUTS, read_cifar
from geq.data.dataset import ImageDataset, Statistics
from geq.data.download_sources import SOURCES
from geq.data.restricted_pickle import read_pickle
from geq.errors import DataError


def write_binary(root: Path, name: str) -> None:
    """Turn the python layout below ``root`` into the official binary one."""
    python, binary = LAYOUTS[name]
    (root / binary.folder).mkdir()
    for source, target in zip(python.train + python.test, binary.train + binary.test, strict=True):
        content = read_pickle(root / python.folder / source)
        keys = ("labels",) if name == "cifar10" else ("coarse_labels", "fine_labels")
        columns = [np.array(content[key], dtype=np.uint8)[:, None] for key in keys]
        (root / binary.folder / target).write_bytes(
            np.concatenate([*columns, content["data"]], axis=1).tobytes()
        )


def remove_python(root: Path, name: str) -> None:
    (root / LAYOUTS[name][0].folder).rename(root / "elsewhere")


def same(left: ImageDataset, right: ImageDataset) -> bool:
    return torch.equal(left.images, right.images) and torch.equal(left.labels, right.labels)


def test_the_two_layouts_of_cifar10_give_the_same(cifar10_root: Path) -> None:
    python = {split: read_cifar("cifar10", split, cifar10_root) for split in ("train", "test")}
    write_binary(cifar10_root, "cifar10")
    remove_python(cifar10_root, "cifar10")
    for split in ("train", "test"):
        assert same(python[split], read_cifar("cifar10", split, cifar10_root))
    assert python["train"].images.shape == (100, 3, 32, 32)
    assert python["train"].labels.bincount().tolist() == [10] * 10


@pytest.mark.parametrize("labels", ["fine", "coarse"])
def test_the_two_layouts_of_cifar100_give_the_same(cifar100_root: Path, labels: Any) -> None:
    python = read_cifar("cifar100", "test", cifar100_root, labels)
    write_binary(cifar100_root, "cifar100")
    remove_python(cifar100_root, "cifar100")
    assert same(python, read_cifar("cifar100", "test", cifar100_root, labels))
    assert len(python.classes) == (100 if labels == "fine" else 20)


def test_pixels_are_stored_channel_by_channel(tmp_path: Path, official: Any) -> None:
    data = np.zeros((1, 3072), dtype=np.uint8)
    data[0, :1024] = 255  # the first 1,024 bytes are red
    data[0, 1024 + 5] = 7  # green, row 0, column 5
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"):
        official(tmp_path / "cifar-10-batches-py" / name, {"data": data, "labels": [3]})
    image = read_cifar("cifar10", "train", tmp_path).images[0]
    assert image[0].eq(255).all()
    assert image[1, 0, 5] == 7
    assert image[2].eq(0).all()


def test_100_classes_fall_into_20_of_five() -> None:
    assert len(CIFAR100_CLASSES) == len(set(CIFAR100_CLASSES)) == 100
    assert torch.bincount(torch.tensor(COARSE_OF_FINE)).tolist() == [5] * 20
    assert CIFAR100_COARSE[COARSE_OF_FINE[CIFAR100_CLASSES.index("whale")]] == "aquatic_mammals"


@pytest.mark.parametrize("label", [-1, 10, 300])
def test_a_label_out_of_range_is_refused(cifar10_root: Path, official: Any, label: int) -> None:
    path = cifar10_root / "cifar-10-batches-py" / "test_batch"
    official(path, {"labels": [0, label], "data": np.zeros((2, 3072), dtype=np.uint8)})
    with pytest.raises(DataError, match=r"test_batch: labels must lie in 0\.\.9.*fetch"):
        read_cifar("cifar10", "test", cifar10_root)


@pytest.mark.parametrize(
    "content",
    [
        {"labels": [0], "data": np.zeros((2, 3072), dtype=np.uint8)},
        {"labels": [0], "data": np.zeros((1, 3000), dtype=np.uint8)},
        {"labels": [], "data": np.zeros((0, 3072), dtype=np.uint8)},
        {"labels": ["cat"], "data": np.zeros((1, 3072), dtype=np.uint8)},
        {"labels": [0.5], "data": np.zeros((1, 3072), dtype=np.uint8)},
        {"labels": [0]},
        {"data": np.zeros((1, 3072), dtype=np.uint8)},
    ],
)
def test_content_of_the_wrong_form_is_refused(
    cifar10_root: Path, official: Any, content: dict[str, Any]
) -> None:
    official(cifar10_root / "cifar-10-batches-py" / "test_batch", content)
    with pytest.raises(DataError, match="test_batch"):
        read_cifar("cifar10", "test", cifar10_root)


def test_truncated_files_are_refused(cifar10_root: Path) -> None:
    write_binary(cifar10_root, "cifar10")
    path = cifar10_root / "cifar-10-batches-py" / "test_batch"
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(DataError, match="test_batch is not a file of this dataset"):
        read_cifar("cifar10", "test", cifar10_root)
    remove_python(cifar10_root, "cifar10")
    path = cifar10_root / "cifar-10-batches-bin" / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(DataError, match="whole number of records of 3073 bytes"):
        read_cifar("cifar10", "test", cifar10_root)
    path.unlink()
    with pytest.raises(DataError, match=r"test_batch\.bin is missing"):
        read_cifar("cifar10", "test", cifar10_root)


def test_an_absent_dataset_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="geq data fetch cifar100"):
        read_cifar("cifar100", "train", tmp_path)


def test_cifar10_has_no_coarse_labels(cifar10_root: Path) -> None:
    with pytest.raises(DataError, match="no coarse labels"):
        read_cifar("cifar10", "test", cifar10_root, "coarse")


@pytest.mark.data
def test_real_cifar10(real_root: Path) -> None:
    train, test = (read_cifar("cifar10", split, real_root) for split in ("train", "test"))
    assert train.labels.bincount().tolist() == [5000] * 10
    assert test.labels.bincount().tolist() == [1000] * 10
    assert test.labels[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    assert [test.classes[label] for label in test.labels[:4].tolist()] == ["cat", "ship", "ship", "airplane"]
    assert test.images[0, :, 0, 0].tolist() == [158, 112, 49]
    measured = Statistics.of(train.images)
    assert measured.mean == pytest.approx(train.statistics.mean, abs=1e-4)
    assert measured.std == pytest.approx(train.statistics.std, abs=1e-4)


@pytest.mark.data
def test_real_cifar100(real_root: Path) -> None:
    fine = read_cifar("cifar100", "train", real_root)
    coarse = read_cifar("cifar100", "train", real_root, "coarse")
    assert fine.labels.bincount().tolist() == [500] * 100
    assert torch.equal(torch.tensor(COARSE_OF_FINE)[fine.labels], coarse.labels)
    meta = read_pickle(real_root / "cifar-100-python" / "meta")
    assert tuple(meta["fine_label_names"]) == fine.classes
    assert tuple(meta["coarse_label_names"]) == coarse.classes
    measured = Statistics.of(fine.images)
    assert measured.mean == pytest.approx(fine.statistics.mean, abs=1e-4)
    assert measured.std == pytest.approx(fine.statistics.std, abs=1e-4)


@pytest.mark.data
def test_the_binary_layout_of_the_real_files_has_the_official_checksums(
    real_root: Path, tmp_path: Path
) -> None:
    (tmp_path / "cifar-100-python").symlink_to(real_root / "cifar-100-python")
    write_binary(tmp_path, "cifar100")
    for name in ("train.bin", "test.bin"):
        raw = (tmp_path / "cifar-100-binary" / name).read_bytes()
        assert hashlib.md5(raw).hexdigest() == SOURCES["cifar100"].files[f"cifar-100-binary/{name}"]
    remove_python(tmp_path, "cifar100")
    assert same(read_cifar("cifar100", "test", tmp_path), read_cifar("cifar100", "test", real_root))


def test_a_label_of_more_than_64_bits_is_refused(tmp_path: Path) -> None:
    import pickle

    content = {"labels": [2**70], "data": np.zeros((1, 3072), dtype=np.uint8)}
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps(content, protocol=3))
    with pytest.raises(DataError, match="not whole numbers"):
        read_cifar("cifar10", "test", tmp_path)
