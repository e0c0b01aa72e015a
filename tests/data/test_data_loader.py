from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Generator

from geq.data.dataset import ImageDataset, Statistics
from geq.data.dataset_registry import load_dataset
from geq.data.loader import BatchLoader
from geq.data.transform import Compose, CropFlip, Normalize, SegmentationCrop, default_transform
from geq.data.transform.base import Images, Transform
from geq.errors import OptionError

STATISTICS = Statistics((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def numbered(count: int) -> ImageDataset:
    """Image n has the label n."""
    images = torch.randint(0, 256, (count, 3, 8, 8), dtype=torch.uint8, generator=Generator().manual_seed(0))
    names = tuple(map(str, range(count)))
    return ImageDataset(images, torch.arange(count), names, STATISTICS, "numbered", "train")


def loader(count: int = 50, batch_size: int = 8, **options: Any) -> BatchLoader:
    transform = Compose((CropFlip(2), Normalize.by(STATISTICS)))
    settings = {"transform": transform, "shuffle": True, "seed": 3} | options
    return BatchLoader(numbered(count), batch_size, **settings)


def same(left: Any, right: Any) -> bool:
    pairs = list(itertools.zip_longest(left, right))
    return all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in pairs)


def labels(batches: Any) -> list[int]:
    return [int(label) for _, part in batches for label in part]


def test_an_epoch_sees_every_image_once() -> None:
    assert sorted(labels(loader())) == list(range(50))
    assert len(loader()) == len(list(loader())) == 7
    assert len(loader(drop_last=True)) == len(list(loader(drop_last=True))) == 6
    assert labels(loader(shuffle=False)) == list(range(50))


def test_batches_are_normalised_floats() -> None:
    images, kinds = next(iter(loader(transform=Normalize.by(STATISTICS), shuffle=False)))
    assert images.dtype == torch.float32
    assert kinds.dtype == torch.int64
    assert torch.allclose(images, (numbered(50).images[:8] / 255 - 0.5) / 0.25, atol=1e-5)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_number_of_workers_changes_nothing(workers: int) -> None:
    single, several = loader(), loader(num_workers=workers)
    assert same(single, several)
    assert same(single.iterate(4, start_batch=3), several.iterate(4, start_batch=3))


def test_a_resumed_epoch_goes_on_as_it_would_have() -> None:
    whole = list(loader().iterate(2))
    for start in range(8):
        assert same(whole[start:], loader().iterate(2, start_batch=start))


def test_epoch_and_seed_change_order_and_augmentation() -> None:
    first = loader()
    again = loader()
    again.set_epoch(1)
    assert labels(first) != labels(again)
    assert same(again, first.iterate(1))
    assert labels(first) != labels(loader(seed=4))
    plain = loader(shuffle=False)
    assert not torch.equal(next(plain.iterate(0))[0], next(plain.iterate(1))[0])
    assert same(first, first), "the same epoch is the same every time"


@pytest.mark.parametrize("count, world", [(50, 4), (48, 4), (7, 3), (2, 3)])
def test_processes_share_a_training_epoch_evenly(count: int, world: int) -> None:
    parts = [labels(loader(count, 2, rank=rank, world_size=world)) for rank in range(world)]
    assert len({len(part) for part in parts}) == 1
    assert set(itertools.chain(*parts)) == set(range(count))
    assert sum(map(len, parts)) - count < world
    if count >= 2 * world:
        kept = [
            labels(loader(count, 2, rank=rank, world_size=world, drop_last=True)) for rank in range(world)
        ]
        assert len({len(part) for part in kept}) == 1
        flat = list(itertools.chain(*kept))
        assert len(flat) == len(set(flat))


def test_processes_share_an_evaluation_without_repeats() -> None:
    parts = [labels(loader(50, 8, shuffle=False, rank=rank, world_size=4)) for rank in range(4)]
    assert sorted(itertools.chain(*parts)) == list(range(50))
    for rank in range(4):
        part = loader(50, 8, shuffle=False, rank=rank, world_size=4)
        assert len(part) == len(list(part))


def test_processes_augment_differently() -> None:
    images = numbered(1).images.repeat(16, 1, 1, 1)
    dataset = ImageDataset(images, torch.zeros(16, dtype=torch.int64), ("a",), STATISTICS, "same", "train")
    transform = Compose((CropFlip(4), Normalize.by(STATISTICS)))
    batches = [
        next(iter(BatchLoader(dataset, 8, transform=transform, shuffle=True, rank=rank, world_size=2)))[0]
        for rank in range(2)
    ]
    assert not torch.equal(batches[0], batches[1])


class Bytes(Transform):
    def __call__(self, images: Images, generator: Generator) -> Images:
        return images


@pytest.mark.parametrize(
    "options, words",
    [
        ({"batch_size": 0}, "batch_size must be positive"),
        ({"num_workers": -1}, "not negative"),
        ({"seed": -1}, "seed must be from 0"),
        ({"rank": 2, "world_size": 2}, "rank must lie in"),
        ({"batch_size": 64, "drop_last": True}, "not one batch of 64"),
        ({"suffle": True}, "did you mean 'shuffle'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        loader(**options)


def test_wrong_use_is_refused() -> None:
    with pytest.raises(OptionError, match="start_batch"):
        loader().iterate(0, start_batch=8)
    with pytest.raises(OptionError, match="epoch"):
        loader().set_epoch(-1)
    with pytest.raises(OptionError, match="end it with Normalize"):
        next(iter(loader(transform=Bytes())))


def test_masks_go_along(tmp_path: Path) -> None:
    for number in range(5):
        for folder, array in (
            ("train", np.full((20, 24, 3), 9 * number)),
            ("trainannot", np.full((20, 24), number)),
        ):
            path = tmp_path / "camvid" / folder / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(array.astype(np.uint8)).save(path)
    dataset = load_dataset("camvid", "train", root=tmp_path)
    transform = Compose((SegmentationCrop(16, 16), Normalize.by(STATISTICS)))
    single, several = (
        BatchLoader(dataset, 2, transform=transform, shuffle=True, num_workers=workers) for workers in (0, 2)
    )
    images, masks = next(iter(single))
    assert images.shape == (2, 3, 16, 16)
    assert masks.shape == (2, 16, 16)
    assert same(single, several)


@pytest.mark.data
@pytest.mark.parametrize("augment", ["crop_flip", "randaugment"])
def test_real_batches_are_the_same_with_0_and_2_workers(real_root: Path, augment: Any) -> None:
    dataset = load_dataset("cifar10", "test", root=real_root, subset=300)
    transform = default_transform("cifar10", True, augment)
    single, several = (
        BatchLoader(dataset, 64, transform=transform, shuffle=True, seed=1, num_workers=workers)
        for workers in (0, 2)
    )
    assert same(single.iterate(5), several.iterate(5))
