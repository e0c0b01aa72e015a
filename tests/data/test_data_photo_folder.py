"""A folder of photos as people have them: one folder per class, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from geq.data.class_folders import FolderDataset
from geq.data.dataset_registry import load_dataset
from geq.data.fingerprint import Fingerprint
from geq.errors import DataError, MissingDataError, OptionError

SHADES = {"car": 20, "frog": 120, "plane": 220}


def draw(folder: Path, number: int, shades: dict[str, int] = SHADES) -> Path:
    """``number`` images of each class, of one shade."""
    for kind, shade in shades.items():
        (folder / kind).mkdir(parents=True)
        for index in range(number):
            Image.new("RGB", (20, 16), (shade, index, 0)).save(folder / kind / f"{index}.png")
    return folder


def parts(folder: Path, **options: object) -> tuple[FolderDataset, FolderDataset]:
    found = [
        load_dataset("imagefolder", split, folder=folder, image_size=4, validation=0, **options)  # type: ignore[arg-type]
        for split in ("train", "test")
    ]
    train, test = found
    assert isinstance(train, FolderDataset)
    assert isinstance(test, FolderDataset)
    return train, test


def test_a_fifth_of_each_class_is_held_out(tmp_path: Path) -> None:
    train, test = parts(draw(tmp_path / "photos", 10))
    assert (train.classes, test.classes) == (tuple(SHADES), tuple(SHADES))
    assert torch.bincount(train.labels).tolist() == [8, 8, 8]
    assert torch.bincount(test.labels).tolist() == [2, 2, 2]
    assert not set(train.paths) & set(test.paths)
    assert len(set(train.paths) | set(test.paths)) == 30
    for part in (train, test):
        images, labels = part.batch(torch.arange(len(part)))
        assert [list(SHADES.values())[label] for label in labels.tolist()] == images[:, 0, 0, 0].tolist()
    assert (train.origin, test.origin) == ("80 % of photos", "20 % of photos")


def test_the_split_does_not_depend_on_the_place_or_the_order(tmp_path: Path) -> None:
    _, first = parts(draw(tmp_path / "photos", 10))
    shutil.copytree(tmp_path / "photos", tmp_path / "elsewhere" / "photos")
    _, again = parts(tmp_path / "elsewhere" / "photos")
    assert Fingerprint.of(first) == Fingerprint.of(again)


def test_images_that_come_later_move_few_of_the_others(tmp_path: Path) -> None:
    """Otherwise a run that is evaluated again would be measured on what it was trained on."""
    photos = draw(tmp_path / "photos", 100)
    _, before = parts(photos)
    for kind in SHADES:
        for index in range(20):
            Image.new("RGB", (20, 16)).save(photos / kind / f"new{index}.png")
    _, after = parts(photos)
    # An order by chance would leave a fifth of them: 12 of 60.
    assert len(set(before.paths) & set(after.paths)) > 45


@pytest.mark.parametrize(("number", "expected"), [(1, 0), (2, 1), (3, 1), (7, 1), (8, 2)])
def test_small_classes_are_in_both_parts_where_they_can(
    number: int, expected: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    draw(tmp_path / "photos", 10, {"car": 20})
    draw(tmp_path / "photos", number, {"frog": 120})
    train, test = parts(tmp_path / "photos")
    assert torch.bincount(test.labels, minlength=2).tolist() == [2, expected]
    assert torch.bincount(train.labels, minlength=2).tolist() == [8, number - expected]
    assert ("20 % of photos has no images of frog" in caplog.text) == (expected == 0)


def test_the_share_can_be_chosen(tmp_path: Path) -> None:
    photos = draw(tmp_path / "photos", 10)
    assert [len(part) for part in parts(photos, test_share=0.5)] == [15, 15]
    for share in (0.0, 1.0, 3.0):
        with pytest.raises(OptionError, match="test_share must be a share between 0 and 1"):
            parts(photos, test_share=share)


def test_validation_images_come_out_of_the_training_images(tmp_path: Path) -> None:
    photos = draw(tmp_path / "photos", 10)
    sizes = [
        len(load_dataset("imagefolder", split, folder=photos, validation=6))
        for split in ("train", "val", "test")  # type: ignore[arg-type]
    ]
    assert sizes == [18, 6, 6]


def test_train_without_val_is_split_as_well(tmp_path: Path) -> None:
    draw(tmp_path / "photos" / "train", 5)
    train, test = parts(tmp_path / "photos")
    assert (len(train), len(test), test.origin) == (12, 3, "20 % of train")


@pytest.mark.parametrize("part", ["val", "test"])
def test_a_folder_of_test_images_is_taken_as_it_is(part: str, tmp_path: Path) -> None:
    draw(tmp_path / "photos" / "train", 5)
    draw(tmp_path / "photos" / part, 2)
    train, test = parts(tmp_path / "photos")
    assert (len(train), len(test)) == (15, 6)
    assert (train.origin, test.origin) == ("photos/train", f"photos/{part}")


def test_train_may_be_a_class(tmp_path: Path) -> None:
    """Photos of trains and of buses."""
    train, _ = parts(draw(tmp_path / "photos", 5, {"bus": 20, "train": 200}))
    assert train.classes == ("bus", "train")


def test_what_is_no_folder_of_classes_is_said(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    with pytest.raises(DataError, match="such as photos/cat and photos/dog: it holds no images and no such"):
        parts(photos)
    Image.new("RGB", (4, 4)).save(photos / "0.png")
    with pytest.raises(DataError, match="it holds 1 images and no such folder"):
        parts(photos)
    draw(photos, 2, {"car": 20})
    with pytest.raises(DataError, match="at least two: it holds car alone"):
        parts(photos)
    draw(photos, 2, {"frog": 20})
    (photos / "empty").mkdir()
    with pytest.raises(DataError, match=r"photos/empty has no images .*: fill or remove the folder$"):
        parts(photos)


def test_it_is_looked_for_where_one_stands_and_then_below_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, root = tmp_path / "here", tmp_path / "root"
    draw(root / "photos", 5)
    here.mkdir()
    monkeypatch.chdir(here)
    assert len(load_dataset("imagefolder", "test", root=root, folder="photos")) == 3
    draw(here / "photos", 10)
    assert len(load_dataset("imagefolder", "test", root=root, folder="photos")) == 6
    # A run names its folder in full; moved, it is found by its name.
    assert len(load_dataset("imagefolder", "test", root=root, folder=tmp_path / "gone" / "photos")) == 6
    monkeypatch.chdir(tmp_path)
    assert len(load_dataset("imagefolder", "test", root=root, folder=tmp_path / "gone" / "photos")) == 3
    with pytest.raises(
        MissingDataError, match=r"go where pets is, or name the folder that holds it by --data_root"
    ):
        load_dataset("imagefolder", "test", root=root, folder="pets")
