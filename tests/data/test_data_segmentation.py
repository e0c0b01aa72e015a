from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from geq.data.dataset_registry import load_dataset
from geq.data.segmentation import CAMVID_CLASSES, IGNORE, read_camvid, read_cityscapes
from geq.errors import DataError


def save(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array.astype(np.uint8)).save(path)


@pytest.fixture
def cityscapes(tmp_path: Path) -> Path:
    base = tmp_path / "cityscapes"
    for split in ("train", "val"):
        for number, city in enumerate(("aachen", "bochum")):
            stem = f"{city}_00000{number}_000019"
            save(base / "leftImg8bit" / split / city / f"{stem}_leftImg8bit.png", np.full((8, 12, 3), number))
            labels = np.arange(96).reshape(8, 12) % 34
            save(base / "gtFine" / split / city / f"{stem}_gtFine_labelIds.png", labels)
    return tmp_path


@pytest.fixture
def camvid(tmp_path: Path) -> Path:
    for split in ("train", "val", "test"):
        for number in range(3):
            save(tmp_path / "camvid" / split / f"{number}.png", np.full((6, 8, 3), 10 * number))
            save(tmp_path / "camvid" / f"{split}annot" / f"{number}.png", np.arange(48).reshape(6, 8) % 12)
    return tmp_path


def test_cityscapes_maps_34_ids_to_19_and_ignores_the_others(cityscapes: Path) -> None:
    dataset = read_cityscapes("train", cityscapes)
    assert len(dataset) == 2
    assert len(dataset.classes) == 19
    image, mask = dataset.read(1)
    assert image.shape == (3, 8, 12)
    assert image.eq(1).all()
    official = {7: 0, 8: 1, 11: 2, 12: 3, 13: 4, 17: 5, 19: 6, 20: 7, 21: 8, 22: 9, 23: 10, 24: 11, 25: 12}
    official |= {26: 13, 27: 14, 28: 15, 31: 16, 32: 17, 33: 18}
    expected = [official.get(value % 34, IGNORE) for value in range(96)]
    assert mask.flatten().tolist() == expected


def test_cityscapes_test_labels_are_not_public(cityscapes: Path) -> None:
    with pytest.raises(DataError, match="evaluate on 'val'"):
        read_cityscapes("test", cityscapes)


def test_camvid_void_is_ignored(camvid: Path) -> None:
    dataset = load_dataset("camvid", "val", root=camvid)
    images, masks = dataset.batch(torch.tensor([2, 0]))
    assert images[:, 0, 0, 0].tolist() == [20, 0]
    assert masks.shape == (2, 6, 8)
    assert masks[0, 0, :].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert set(masks.unique().tolist()) == {*range(11), IGNORE}
    assert len(dataset.subset([1])) == 1


def test_a_subset_of_scenes(camvid: Path) -> None:
    whole, part = load_dataset("camvid", root=camvid), load_dataset("camvid", root=camvid, subset=2)
    assert len(part) == 2
    assert set(part.paths) < set(whole.paths)
    assert load_dataset("camvid", root=camvid, subset=2).paths == part.paths


def test_a_missing_mask_is_named(camvid: Path) -> None:
    (camvid / "camvid" / "trainannot" / "1.png").unlink()
    with pytest.raises(
        DataError, match=r"1 of 3 images of .* have no mask, the first being .*trainannot/1\.png"
    ):
        read_camvid("train", camvid)


def test_masks_that_do_not_fit_are_refused(camvid: Path) -> None:
    path = camvid / "camvid" / "trainannot" / "0.png"
    for array, words in (
        (np.zeros((6, 7)), "they must be alike"),
        (np.full((6, 8), 12), r"labels \[12\] unknown to camvid"),
        (np.zeros((6, 8, 3)), "one channel of 8 bits"),
    ):
        save(path, array)
        with pytest.raises(DataError, match=words):
            read_camvid("train", camvid).read(0)


def test_images_of_different_sizes_do_not_make_a_batch(camvid: Path) -> None:
    save(camvid / "camvid" / "train" / "0.png", np.zeros((4, 4, 3)))
    save(camvid / "camvid" / "trainannot" / "0.png", np.zeros((4, 4)))
    with pytest.raises(DataError, match="must have one size"):
        read_camvid("train", camvid).batch(torch.tensor([0, 1]))


def test_absent_datasets_say_what_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="it must hold the folder camvid; arrange camvid/train"):
        read_camvid("train", tmp_path)
    (tmp_path / "cityscapes").mkdir()
    with pytest.raises(DataError, match="has no images"):
        read_cityscapes("val", tmp_path)


@pytest.mark.data
def test_real_camvid(real_root: Path) -> None:
    sizes = {split: len(read_camvid(split, real_root)) for split in ("train", "val", "test")}
    assert sizes == {"train": 367, "val": 101, "test": 233}
    images, masks = read_camvid("train", real_root).batch(torch.arange(0, 367, 23))
    assert images.shape[1:] == (3, 180, 240)
    counts = torch.bincount(masks.flatten(), minlength=256)[: len(CAMVID_CLASSES)]
    # Most of a street scene is road, then buildings and sky.
    assert [CAMVID_CLASSES[n] for n in counts.argsort(descending=True)[:3].tolist()] == [
        "road",
        "building",
        "sky",
    ]


def test_hidden_files_are_no_scenes(cityscapes: Path, camvid: Path) -> None:
    before = len(load_dataset("cityscapes", "train", root=cityscapes))
    for image in list((cityscapes / "cityscapes" / "leftImg8bit").rglob("*.png")):
        image.with_name(f"._{image.name}").write_bytes(b"\0\x05\x16\x07")
    assert len(load_dataset("cityscapes", "train", root=cityscapes)) == before
    before = len(load_dataset("camvid", "train", root=camvid))
    for image in list((camvid / "camvid" / "train").glob("*.png")):
        image.with_name(f"._{image.name}").write_bytes(b"\0\x05\x16\x07")
    assert len(load_dataset("camvid", "train", root=camvid)) == before
