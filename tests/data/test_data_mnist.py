from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from geq.data.dataset import Statistics
from geq.data.download_sources import SYSTEM_FOLDERS
from geq.data.mnist import read_idx, read_mnist
from geq.errors import DataError


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write(root: Path, count: int = 20, packed: bool = True) -> Path:
    folder = root / "mnist"
    folder.mkdir(parents=True)
    for prefix in ("train", "t10k"):
        images = np.random.default_rng(0).integers(0, 256, size=(count, 28, 28), dtype=np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        for stem, content in (
            (f"{prefix}-images-idx3-ubyte", images),
            (f"{prefix}-labels-idx1-ubyte", labels),
        ):
            if packed:
                (folder / f"{stem}.gz").write_bytes(gzip.compress(idx(content)))
            else:
                (folder / stem).write_bytes(idx(content))
    return folder


@pytest.mark.parametrize("packed", [True, False])
def test_images_and_labels_are_read(tmp_path: Path, packed: bool) -> None:
    write(tmp_path, packed=packed)
    dataset = read_mnist("mnist", "train", tmp_path)
    expected = np.random.default_rng(0).integers(0, 256, size=(20, 28, 28), dtype=np.uint8)
    assert np.array_equal(dataset.images[:, 0].numpy(), expected)
    assert dataset.labels.tolist() == [n % 10 for n in range(20)]


def test_damaged_files_are_refused_with_their_path(tmp_path: Path) -> None:
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    good = idx(np.zeros((4, 28, 28), dtype=np.uint8))
    for raw, words in (
        (gzip.compress(good)[:-20], "damaged or cannot be read"),
        (gzip.compress(good[:-1]), "holds 3135 of the 3136 bytes"),
        (gzip.compress(good + b"x"), "holds more than the 3136 bytes"),
        (gzip.compress(b"\0\0\x09\x03" + good[4:]), "not an idx file of bytes with 3 dimensions"),
        (gzip.compress(b"\0\0"), "not an idx file"),
        (b"plain text", "damaged or cannot be read"),
    ):
        path.write_bytes(raw)
        with pytest.raises(DataError, match=words) as caught:
            read_idx(path, dimensions=3)
        assert str(path) in str(caught.value)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(bytes([0, 0, 8, 3]) + struct.pack(">3I", 60000, 60000, 60000)))
    with pytest.raises(DataError, match="more than any such dataset has"):
        read_idx(path, dimensions=3)
    # One that announces little and holds much is read no further than announced.
    path.write_bytes(gzip.compress(idx(np.zeros((1, 28, 28), dtype=np.uint8)) + bytes(1 << 24)))
    with pytest.raises(DataError, match="more than the 784 bytes"):
        read_idx(path, dimensions=3)


def test_labels_out_of_range_and_of_another_number_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path)
    path = folder / "train-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(idx(np.full(20, 10, dtype=np.uint8))))
    with pytest.raises(DataError, match=r"labels must lie in 0\.\.9: got 10"):
        read_mnist("mnist", "train", tmp_path)
    path.write_bytes(gzip.compress(idx(np.zeros(19, dtype=np.uint8))))
    with pytest.raises(DataError, match="20 images but 19 labels"):
        read_mnist("mnist", "train", tmp_path)
    path.unlink()
    with pytest.raises(DataError, match="must hold train-labels"):
        read_mnist("mnist", "train", tmp_path)


def test_an_absent_dataset_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="geq data fetch mnist"):
        read_mnist("mnist", "train", tmp_path)


@pytest.mark.data
def test_debians_fashion_mnist(tmp_path: Path) -> None:
    if not SYSTEM_FOLDERS["fashion_mnist"][0].is_dir():
        pytest.skip("the package dataset-fashion-mnist is not installed: skipping a check on the real files")
    train, test = (read_mnist("fashion_mnist", split, tmp_path) for split in ("train", "test"))
    assert train.labels.bincount().tolist() == [6000] * 10
    assert test.labels.bincount().tolist() == [1000] * 10
    assert test.classes[int(test.labels[0])] == "Ankle boot"
    measured = Statistics.of(train.images)
    assert measured.mean == pytest.approx(train.statistics.mean, abs=1e-4)
    assert measured.std == pytest.approx(train.statistics.std, abs=1e-4)


def test_memory_is_not_reserved_for_what_a_header_claims(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "file"
    path.write_bytes(bytes([0, 0, 8, 1]) + struct.pack(">I", 60 << 20) + bytes(100))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="holds 100 of the"):
            read_idx(path, dimensions=1)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_a_file_without_images_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", 0, 2**32 - 1, 2**32 - 1))
    with pytest.raises(DataError, match="is empty"):
        read_idx(path, dimensions=3)
