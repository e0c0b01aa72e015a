from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest
import torch
from PIL import Image

from geq.data.dataset_options import Split
from geq.data.dataset_registry import load_dataset
from geq.data.loader import BatchLoader
from geq.data.transform import default_transform
from geq.errors import DataError, OptionError

datasets = pytest.importorskip("datasets")


def make(count: int, sizes: tuple[int, ...] = (8,), column: str = "label") -> object:
    pictures = [Image.new("RGB", (sizes[n % len(sizes)],) * 2, (n, 0, 0)) for n in range(count)]
    features = datasets.Features(
        {
            "image": datasets.Image(),
            column: datasets.ClassLabel(names=["cat", "dog"]),
            "note": datasets.Value("string"),
        }
    )
    content = {"image": pictures, column: [n % 2 for n in range(count)], "note": ["x"] * count}
    return datasets.Dataset.from_dict(content, features=features)


def test_splits_images_and_labels_are_read(tmp_path: Path) -> None:
    datasets.DatasetDict({"train": make(10), "validation": make(4)}).save_to_disk(tmp_path / "set")
    train = load_dataset("hub", "train", root=tmp_path, folder="set")
    assert (len(train), train.classes) == (10, ("cat", "dog"))
    images, labels = train.batch(torch.tensor([3, 6]))
    assert images[:, 0, 0, 0].tolist() == [3, 6]
    assert labels.tolist() == [1, 0]
    assert train.statistics.mean[0] == pytest.approx(4.5 / 255)
    assert len(load_dataset("hub", "val", root=tmp_path, folder="set")) == 4
    assert len(load_dataset("hub", "val", root=tmp_path, folder="set", validation=2)) == 2
    assert train.subset([9]).batch(torch.tensor([0]))[0][0, 0, 0, 0] == 9
    with pytest.raises(DataError, match="has no test split: it has train, validation"):
        load_dataset("hub", "test", root=tmp_path, folder="set")
    loader = BatchLoader(train, 5, transform=default_transform("hub", False, statistics=train.statistics))
    assert sum(len(batch) for batch, _ in loader) == 10


def test_a_set_without_splits_is_train(tmp_path: Path) -> None:
    make(6).save_to_disk(tmp_path / "set")  # type: ignore[attr-defined]
    assert len(load_dataset("hub", "train", root=tmp_path, folder="set", validation=0)) == 6
    with pytest.raises(DataError, match="one set without splits"):
        load_dataset("hub", "test", root=tmp_path, folder="set")


def test_images_of_different_sizes_need_one(tmp_path: Path) -> None:
    make(6, sizes=(8, 9)).save_to_disk(tmp_path / "set")  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="give image_size"):
        load_dataset("hub", "train", root=tmp_path, folder="set")
    train = load_dataset("hub", "train", root=tmp_path, folder="set", image_size=4)
    assert train.batch(torch.tensor([0, 1]))[0].shape == (2, 3, 4, 4)


def test_columns_can_be_named(tmp_path: Path) -> None:
    make(4, column="animal").save_to_disk(tmp_path / "set")  # type: ignore[attr-defined]
    assert len(load_dataset("hub", "train", root=tmp_path, folder="set", label_column="animal")) == 4
    with pytest.raises(DataError, match="unknown ClassLabel column 'note'"):
        load_dataset("hub", "train", root=tmp_path, folder="set", label_column="note")


def test_what_is_not_such_a_dataset_is_refused(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    with pytest.raises(DataError, match="does not hold a dataset written by save_to_disk"):
        load_dataset("hub", "train", root=tmp_path, folder="set")
    with pytest.raises(OptionError, match="needs the option folder"):
        load_dataset("hub", "train", root=tmp_path)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_table_that_points_outside_of_its_file_is_refused(split: Split, tmp_path: Path) -> None:
    """Arrow maps it as it is; reading such a row would end the process. Train gives the statistics of all."""
    stored = make(3)
    datasets.DatasetDict({"train": stored, "test": make(4)}).save_to_disk(tmp_path / "set")
    (path,) = (tmp_path / "set" / "train").glob("*.arrow")
    content = path.read_bytes()
    pictures = stored.cast_column("image", datasets.Image(decode=False))["image"]  # type: ignore[attr-defined]
    ends = list(itertools.accumulate(len(one["bytes"]) for one in pictures))
    offsets = struct.pack("<4i", 0, *ends)
    assert content.count(offsets) == 1
    path.write_bytes(content.replace(offsets, struct.pack("<4i", 0, *ends[:-1], 2**31 - 1)))
    with pytest.raises(DataError, match=r"is damaged: .*; save it again"):
        load_dataset("hub", split, root=tmp_path, folder="set")


def test_every_split_is_normalised_as_train_is(tmp_path: Path) -> None:
    bright = make(6).map(lambda row: {"image": Image.new("RGB", (8, 8), (200, 200, 200))})  # type: ignore[attr-defined]
    datasets.DatasetDict({"train": make(10), "test": bright}).save_to_disk(tmp_path / "set")
    train, test = (load_dataset("hub", split, root=tmp_path, folder="set") for split in ("train", "test"))
    assert test.statistics == train.statistics
    datasets.DatasetDict({"test": bright}).save_to_disk(tmp_path / "alone")
    assert load_dataset("hub", "test", root=tmp_path, folder="alone").statistics.mean[1] > 0.7


def test_the_classes_of_a_split_are_those_of_train(tmp_path: Path) -> None:
    other = make(4).cast_column("label", datasets.ClassLabel(names=["dog", "cat"]))  # type: ignore[attr-defined]
    datasets.DatasetDict({"train": make(4), "test": other}).save_to_disk(tmp_path / "set")
    assert load_dataset("hub", "train", root=tmp_path, folder="set").classes == ("cat", "dog")
    with pytest.raises(DataError, match="got dog, cat and cat, dog; cast the label column"):
        load_dataset("hub", "test", root=tmp_path, folder="set")
