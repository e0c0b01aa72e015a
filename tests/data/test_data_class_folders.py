from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from geq.data.class_folders import read_image_folder
from geq.data.dataset_options import Split
from geq.data.dataset_registry import load_dataset
from geq.errors import DataError, OptionError

CLASSES = ("n01", "n02", "n03")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    base = tmp_path / "pictures"
    for split, count in (("train", 4), ("val", 2)):
        for number, kind in enumerate(CLASSES):
            (base / split / kind).mkdir(parents=True)
            for n in range(count):
                colour = (50 * number, n, 0)
                Image.new("RGB", (20 + n, 16), colour).save(base / split / kind / f"{n}.png")
    (base / "train" / ".hidden").mkdir()
    (base / "train" / "n01" / "notes.txt").write_text("not an image")
    return base


def test_images_are_read_when_asked_for(folder: Path) -> None:
    dataset = read_image_folder(folder, "train", size=8)
    assert len(dataset) == 12
    assert dataset.classes == CLASSES
    images, labels = dataset.batch(torch.tensor([0, 5, 11]))
    assert images.shape == (3, 3, 8, 8)
    assert labels.tolist() == [0, 1, 2]
    assert images[:, 0, 0, 0].tolist() == [0, 50, 100]
    assert images[:, 1, 0, 0].tolist() == [0, 1, 3]


def test_a_class_list_picks_and_orders(folder: Path, tmp_path: Path) -> None:
    listing = tmp_path / "classes.txt"
    listing.write_text("n03  # last first\n\n# a comment\nn01\n")
    dataset = read_image_folder(folder, "val", class_list=listing, size=4)
    assert dataset.classes == ("n03", "n01")
    assert dataset.batch(torch.tensor([0]))[0][0, 0, 0, 0] == 100


@pytest.mark.parametrize(
    "text, words",
    [("n01\nn1\n", "unknown class folder 'n1'; did you mean"), ("n01\nn01\n", "n01 more than once")],
)
def test_a_wrong_class_list_is_refused(folder: Path, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "classes.txt").write_text(text)
    with pytest.raises(DataError, match=words):
        read_image_folder(folder, "train", class_list=tmp_path / "classes.txt")
    with pytest.raises(DataError, match="cannot be read"):
        read_image_folder(folder, "train", class_list=tmp_path / "none.txt")


def test_an_empty_class_folder_is_refused(folder: Path) -> None:
    (folder / "train" / "n04").mkdir()
    with pytest.raises(DataError, match=r"n04 has no images.*fill or remove"):
        read_image_folder(folder, "train")


def test_a_missing_split_says_what_is_there(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds train, val"):
        read_image_folder(folder, "test")
    with pytest.raises(DataError, match="holds nothing"):
        read_image_folder(tmp_path / "none", "train")
    (tmp_path / "bare" / "train").mkdir(parents=True)
    with pytest.raises(DataError, match="no class folders"):
        read_image_folder(tmp_path / "bare", "train")


def test_a_damaged_image_is_named_when_it_is_read(folder: Path) -> None:
    (folder / "train" / "n02" / "0.png").write_bytes(b"damaged")
    dataset = read_image_folder(folder, "train")
    with pytest.raises(DataError, match=r"n02/0\.png is not an image"):
        dataset.read(4)


def test_the_registry_knows_folders(folder: Path) -> None:
    root, name = folder.parent, folder.name
    assert len(load_dataset("imagefolder", "train", root=root, folder=name)) == 12
    assert len(load_dataset("imagefolder", "val", root=root, folder=name)) == 6
    # ImageNet's own test labels are not public: its val is what is reported.
    assert load_dataset("imagefolder", "test", root=root, folder=name).split == "test"
    assert len(load_dataset("imagefolder", "test", root=root, folder=name)) == 6
    assert len(load_dataset("imagefolder", "val", root=root, folder=name, validation=3)) == 3
    assert len(load_dataset("imagefolder", "train", root=root, folder=name, validation=3)) == 9
    assert len(load_dataset("imagefolder", "train", root=root, folder=name, subset=6)) == 6
    image, _ = load_dataset("imagefolder", "train", root=root, folder=name, image_size=12).batch(
        torch.tensor([0])
    )
    assert image.shape == (1, 3, 12, 12)
    with pytest.raises(OptionError, match="needs the option folder"):
        load_dataset("imagefolder", "train", root=root)
    with pytest.raises(DataError, match="imagenette2-320"):
        load_dataset("imagenette", "train", root=root)
    folder.rename(root / "imagenette2-320")
    assert len(load_dataset("imagenette", "train", root=root)) == 12


def test_statistics_and_subset_keep_the_interface(folder: Path) -> None:
    dataset = read_image_folder(folder, "train", size=4)
    part = dataset.subset([11, 0])
    assert part.labels.tolist() == [2, 0]
    assert len(part.statistics.mean) == 3
    assert np.array_equal(part.read(0), dataset.read(11))


@pytest.mark.parametrize("part", ["val", "test"])
@pytest.mark.parametrize("absent", CLASSES)
def test_a_class_that_a_split_lacks_moves_no_label(
    part: Split, absent: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever it is: a perfect network must be right about every image of the others."""
    if part == "test":
        (folder / "val").rename(folder / "test")
    shutil.rmtree(folder / part / absent)
    dataset = read_image_folder(folder, part, size=4)
    assert dataset.classes == CLASSES
    for index in range(len(dataset)):
        number = CLASSES.index(dataset.paths[index].parent.name)
        assert int(dataset.labels[index]) == number
        assert int(dataset.read(index)[0, 0, 0]) == 50 * number
    assert f"{folder / part} has no images of {absent}" in caplog.text
    caplog.clear()
    (folder / part / absent).mkdir()  # an empty folder is as good as none
    assert read_image_folder(folder, part, size=4).labels.tolist() == dataset.labels.tolist()
    assert f"has no images of {absent}" in caplog.text


def test_a_class_that_training_lacks_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "val" / "n02").rename(folder / "val" / "n99")
    with pytest.raises(DataError, match=r"val must be among those of .*train.*: got n99; rename or remove"):
        read_image_folder(folder, "val")
    (tmp_path / "classes.txt").write_text("n01\nn03\n")  # says what to take
    assert read_image_folder(folder, "val", class_list=tmp_path / "classes.txt").labels.unique().tolist() == [
        0,
        1,
    ]


def test_without_train_nothing_numbers_the_classes(folder: Path, tmp_path: Path) -> None:
    shutil.rmtree(folder / "train")
    with pytest.raises(DataError, match=r"needs the folder .*train, whose class folders number the classes"):
        read_image_folder(folder, "val")
    (tmp_path / "classes.txt").write_text("n03\nn02\nn01\n")
    dataset = read_image_folder(folder, "val", class_list=tmp_path / "classes.txt")
    assert dataset.classes == CLASSES[::-1]
    for kind in CLASSES:
        (folder / "train" / kind).mkdir(parents=True)  # empty is enough for an evaluation
    assert read_image_folder(folder, "val").classes == CLASSES
    shutil.rmtree(folder / "val")
    for kind in CLASSES:
        (folder / "val" / kind).mkdir(parents=True)
    with pytest.raises(DataError, match="has no images of the classes n01, n02, n03"):
        read_image_folder(folder, "val")


def test_a_thousand_names_make_no_long_message(folder: Path) -> None:
    for number in range(1000):
        (folder / "val" / f"strange{number:04d}").mkdir()
    with pytest.raises(DataError, match="strange0009, … 1000 in all"):
        read_image_folder(folder, "val")


@pytest.mark.parametrize("name", ["._0.png", ".DS_Store", ".0.jpg", ".thumbnails/0.png", ".git/a/b.png"])
def test_hidden_files_are_ignored(name: str, folder: Path) -> None:
    for place in (folder / "train" / "n01", folder / "train", folder):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(b"\0\x05\x16\x07")
    dataset = read_image_folder(folder, "train", size=4)
    assert (len(dataset), dataset.classes) == (12, CLASSES)
    assert len(dataset.batch(torch.arange(12))[0]) == 12


def test_images_of_a_hidden_place_are_read(folder: Path) -> None:
    """Only what is hidden within the dataset is left out: it may itself lie below ~/.cache."""
    place = folder.parent / ".cache" / "pictures"
    place.parent.mkdir()
    folder.rename(place)
    assert len(read_image_folder(place, "train")) == 12
