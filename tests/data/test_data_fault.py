"""Faults of the camera, which leave most of an image as it is, and faults of the labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from geq.data.corruption import corrupt, corruption_names
from geq.data.corruption.corruption_registry import FAULTS, known_names
from geq.data.corruption.noise import CORRUPTIONS
from geq.data.dataset_registry import load_dataset
from geq.data.splits import with_label_noise
from geq.errors import OptionError

FAULTY = [one for one in CORRUPTIONS if one.name in FAULTS]
GREY = np.full((40, 32, 32, 3), 100, dtype=np.uint8)


def test_faults_are_not_among_the_19() -> None:
    assert tuple(one.name for one in FAULTY) == FAULTS
    assert not set(FAULTS) & set(corruption_names())
    assert set(known_names()) == {*FAULTS, *corruption_names()}


@pytest.mark.parametrize("corruption", FAULTY, ids=lambda one: one.name)
def test_the_share_of_changed_pixels_is_the_strength(corruption: object) -> None:
    """On even grey every changed pixel shows, but for a noise or a grey that hits 100 by chance."""
    name, strengths = corruption.name, corruption.strengths  # type: ignore[attr-defined]
    assert list(strengths) == sorted(strengths)
    for severity, share in enumerate(strengths, 1):
        changed = (corrupt(GREY, name, severity, seed=3) != GREY).any(-1).mean()
        # Hits are independent pixels, columns, tiles of 16 pixels or, for a square, exact up to rounding.
        independent = {"hot_pixels": 40 * 1024, "dead_lines": 40 * 32, "noise_patches": 40 * 64}.get(name)
        margin = 0.02 if independent is None else 4 * (share * (1 - share) / independent) ** 0.5 + 0.001
        assert abs(changed - share) < margin, (name, severity, changed)


def test_an_occluded_image_holds_one_square_of_one_grey() -> None:
    changed = corrupt(GREY[:1], "occlusion", 5, seed=1)[0]
    rows, columns = np.nonzero((changed != GREY[0]).any(-1))
    height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
    assert height == width
    assert height * width == len(rows)
    assert len(np.unique(changed[rows, columns])) == 1


@pytest.mark.parametrize("size", [1, 3, 8, 31])
def test_every_size_of_image_is_taken(size: int) -> None:
    for name in FAULTS:
        assert corrupt(GREY[:2, :size, :size], name, 5, seed=0).shape == (2, size, size, 3)


def test_label_noise_changes_the_share_in_every_class_and_spreads_over_all_others() -> None:
    clean = load_dataset("digits", "train", validation=0)
    noisy = load_dataset("digits", "train", validation=0, label_noise=0.4)
    wrong = noisy.labels != clean.labels
    assert int(wrong.sum()) == round(0.4 * len(clean))
    assert torch.equal(noisy.images, clean.images)
    for kind in range(10):
        assert abs(float(wrong[clean.labels == kind].float().mean()) - 0.4) < 0.01
    pairs = torch.bincount(clean.labels[wrong] * 10 + noisy.labels[wrong], minlength=100).view(10, 10)
    assert pairs.diagonal().sum() == 0
    # Nine other classes share about 57 wrong labels of each class.
    assert ((pairs + 99 * torch.eye(10, dtype=torch.int64)) > 0).all()


def test_label_noise_is_for_training_images_only_and_is_reproducible() -> None:
    for split in ("val", "test"):
        clean, noisy = (load_dataset("digits", split, label_noise=share) for share in (0.0, 0.5))  # type: ignore[arg-type]
        assert torch.equal(clean.labels, noisy.labels)
    train = load_dataset("digits", "train")
    assert torch.equal(with_label_noise(train, 0.3).labels, with_label_noise(train, 0.3).labels)
    assert with_label_noise(train, 0.0) is train


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_outside_its_range_is_refused(share: float) -> None:
    with pytest.raises(OptionError, match="share from 0 to 1"):
        load_dataset("digits", "train", label_noise=share)
