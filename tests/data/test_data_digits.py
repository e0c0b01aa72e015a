from __future__ import annotations

import pytest
import torch

from geq.data.dataset import Statistics
from geq.data.digits import read_digits


def test_the_split_is_stratified_disjoint_and_whole() -> None:
    train, test = read_digits("train"), read_digits("test")
    assert (len(train), len(test)) == (1437, 360)
    assert train.images.shape[1:] == (1, 8, 8)
    assert max(abs(int(count) - 36) for count in test.labels.bincount()) <= 1
    rows = {tuple(image.flatten().tolist()) for image in train.images}
    assert not any(tuple(image.flatten().tolist()) in rows for image in test.images)


def test_values_fill_the_bytes_and_the_statistics_are_theirs() -> None:
    images = torch.cat([read_digits("train").images, read_digits("test").images])
    assert int(images.min()) == 0
    assert int(images.max()) == 255
    measured, stated = Statistics.of(images), read_digits("train").statistics
    assert measured.mean == pytest.approx(stated.mean, abs=1e-4)
    assert measured.std == pytest.approx(stated.std, abs=1e-4)


def test_the_split_is_the_same_every_time() -> None:
    assert torch.equal(read_digits("test").images, read_digits("test").images)


def test_they_are_scikit_learns() -> None:
    from sklearn.datasets import load_digits

    whole = load_digits()
    found = torch.cat([read_digits("train").labels, read_digits("test").labels])
    assert torch.equal(found.bincount(), torch.from_numpy(whole.target).bincount())
    rows = {tuple(row) for row in (whole.images * (255 / 16)).round().astype(int).reshape(-1, 64).tolist()}
    images = torch.cat([read_digits("train").images, read_digits("test").images])
    assert {tuple(image.flatten().tolist()) for image in images} == rows
