from __future__ import annotations

import pytest
import torch

from geq.data.dataset import Dataset, ImageDataset, Labelled, Statistics
from geq.errors import DataError, InputError


def tiny(labels: list[int], channels: int = 1) -> ImageDataset:
    images = (
        torch.arange(len(labels), dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, channels, 2, 2).contiguous()
    )
    return ImageDataset(images, torch.tensor(labels), ("a", "b"), Statistics((0.5,), (0.5,)), "tiny", "train")


def test_it_is_a_labelled_dataset() -> None:
    assert isinstance(tiny([0, 1]), Dataset)
    assert isinstance(tiny([0, 1]), Labelled)


def test_a_subset_keeps_order_and_repeats() -> None:
    part = tiny([0, 1, 0]).subset([2, 1, 2])
    assert part.images[:, 0, 0, 0].tolist() == [2, 1, 2]
    assert part.labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize("indices", [[3], [-1], [0, 99]])
def test_indices_out_of_range_are_refused(indices: list[int]) -> None:
    with pytest.raises(InputError, match=r"indices must lie in 0\.\.2"):
        tiny([0, 1, 0]).subset(indices)


@pytest.mark.parametrize("labels", [[0, 2], [-1, 0]])
def test_labels_out_of_range_are_refused(labels: list[int]) -> None:
    with pytest.raises(DataError, match=r"labels must lie in 0\.\.1"):
        tiny(labels)


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match="3 channels but 1 means"):
        tiny([0, 1], channels=3)
    with pytest.raises(InputError, match="positive std"):
        Statistics((0.5,), (0.0,))


def test_statistics_equal_those_of_the_floats() -> None:
    images = torch.randint(0, 256, (2100, 3, 4, 5), dtype=torch.uint8)
    measured = Statistics.of(images)
    values = images.double() / 255
    assert measured.mean == pytest.approx(values.mean((0, 2, 3)).tolist(), rel=1e-12)
    assert measured.std == pytest.approx(values.std((0, 2, 3), correction=0).tolist(), rel=1e-9)
    assert Statistics.of(torch.full((2, 1, 2, 2), 7, dtype=torch.uint8)).std[0] > 0
