from __future__ import annotations

from pathlib import Path

import pytest
import torch

from geq.data.dataset import ImageDataset
from geq.data.dataset_registry import (
    DatasetOptions,
    dataset_info,
    dataset_names,
    load_dataset,
    load_with_options,
)
from geq.errors import OptionError


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean 'cifar10'"):
        load_dataset("cifar01")
    with pytest.raises(
        OptionError, match="unknown option of DatasetOptions 'validaton'; did you mean 'validation'"
    ):
        DatasetOptions(validaton=1)  # type: ignore[call-arg]


def test_an_option_that_does_not_apply_is_refused(cifar10_root: Path) -> None:
    with pytest.raises(OptionError, match="cifar10 has no option 'class_list'"):
        load_dataset("cifar10", root=cifar10_root, class_list="x")
    with pytest.raises(OptionError, match="digits has no option 'labels'"):
        load_dataset("digits", labels="coarse")
    with pytest.raises(OptionError, match="camvid has no option 'validation'"):
        load_dataset("camvid", validation=3)


def test_validation_is_held_out_of_train(cifar10_root: Path) -> None:
    train, val = (load_dataset("cifar10", split, root=cifar10_root) for split in ("train", "val"))
    assert (len(train), len(val)) == (90, 10)
    assert (train.split, val.split) == ("train", "val")
    whole = load_dataset("cifar10", "train", root=cifar10_root, validation=0)
    rows = sorted(image.flatten().tolist() for image in torch.cat([train.images, val.images]))
    assert rows == sorted(image.flatten().tolist() for image in whole.images)
    with pytest.raises(OptionError, match="no val split with validation=0"):
        load_dataset("cifar10", "val", root=cifar10_root, validation=0)
    other = load_dataset("cifar10", "val", root=cifar10_root, validation_seed=1)
    assert not torch.equal(other.images, val.images)
    assert len(load_dataset("cifar10", "val", root=cifar10_root, validation=20)) == 20
    assert len(load_dataset("cifar10", "test", root=cifar10_root)) == 20


def test_known_and_unseen_classes(cifar10_root: Path, cifar100_root: Path) -> None:
    known = load_dataset("cifar10", "test", root=cifar10_root, classes="known")
    assert len(known.classes) == 5
    unseen = load_dataset("cifar100", "test", root=cifar100_root, classes="unseen")
    assert len(unseen.classes) == 20
    assert len(unseen) == 20
    assert len(load_dataset("cifar100", "test", root=cifar100_root, labels="coarse").classes) == 20
    with pytest.raises(OptionError, match="leave labels='fine'"):
        load_dataset("cifar100", "test", root=cifar100_root, classes="known", labels="coarse")


def test_subsets_by_size(cifar10_root: Path) -> None:
    part = load_dataset("cifar10", "train", root=cifar10_root, subset=20)
    assert part.labels.bincount().tolist() == [2] * 10
    options = DatasetOptions(subset=20)
    again = load_with_options("cifar10", "train", cifar10_root, options)
    assert isinstance(again, ImageDataset)
    assert torch.equal(part.images, again.images)


def test_the_environment_names_the_root(cifar10_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEQ_DATA", str(cifar10_root))
    assert len(load_dataset("cifar10", "test")) == 20


@pytest.mark.parametrize("name", ["digits", "cifar10", "cifar100"])
def test_what_the_registry_says_is_what_is_read(name: str, cifar10_root: Path, cifar100_root: Path) -> None:
    dataset = load_dataset(name, "test", root=cifar10_root)
    info = dataset_info(name)
    assert dataset.images.shape[1:] == (info.channels, info.image_size, info.image_size)
    assert dataset.statistics == info.statistics
    assert dataset.name == name
    assert name in dataset_names()
