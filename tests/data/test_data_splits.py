from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from geq.data.cifar import CIFAR100_CLASSES, COARSE_OF_FINE, read_cifar
from geq.data.dataset_registry import load_dataset
from geq.data.splits import first_classes, hold_out, stratified, subset_by_size, superclasses
from geq.errors import InputError, OptionError


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    share=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_stratified_parts_are_exact_disjoint_and_in_proportion(
    labels: list[int], share: float, seed: int
) -> None:
    tensor = torch.tensor(labels)
    size = round(share * len(labels))
    chosen, rest = stratified(tensor, size, seed)
    assert len(chosen) == size
    assert sorted(chosen.tolist() + rest.tolist()) == list(range(len(labels)))
    assert chosen.tolist() == sorted(chosen.tolist())
    for kind in set(labels):
        exact = labels.count(kind) * size / len(labels)
        assert abs(int((tensor[chosen] == kind).sum()) - exact) < 1


def test_the_seed_chooses() -> None:
    labels = torch.arange(100) % 10
    assert torch.equal(stratified(labels, 20, 1)[0], stratified(labels, 20, 1)[0])
    assert not torch.equal(stratified(labels, 20, 1)[0], stratified(labels, 20, 2)[0])


def test_the_split_is_this_one_for_ever() -> None:
    """If this fails, results that were written down with a seed can no longer be made again."""
    assert stratified(torch.arange(40) % 4, 8, seed=0)[0].tolist() == PINNED


PINNED = [2, 3, 11, 13, 18, 20, 21, 32]


def test_larger_subsets_contain_smaller_ones() -> None:
    labels = torch.arange(100) % 10
    small, large = (set(stratified(labels, size, 3)[0].tolist()) for size in (20, 50))
    assert small < large


@pytest.mark.parametrize("size", [-1, 101])
def test_sizes_out_of_range_are_refused(size: int) -> None:
    with pytest.raises(OptionError, match="the size must lie in"):
        stratified(torch.zeros(100, dtype=torch.int64), size, 0)


def test_a_holdout_can_be_written_down(cifar10_root: Path) -> None:
    dataset = read_cifar("cifar10", "train", cifar10_root)
    parts = hold_out(dataset, 0.2, seed=5)
    assert (len(parts.train), len(parts.validation)) == (80, 20)
    text = json.dumps(parts.describe())
    assert json.loads(text)["validation_per_class"] == dict.fromkeys(dataset.classes, 2)
    assert parts.describe() == hold_out(dataset, 20, seed=5).describe()
    digests = {hold_out(dataset, 20, seed=seed).describe()["validation_indices_sha256"] for seed in range(5)}
    assert len(digests) == 5
    with pytest.raises(OptionError, match="a share below 1 or a whole number"):
        hold_out(dataset, 2.5)


def test_first_classes_split_cifar10_in_two(cifar10_root: Path) -> None:
    dataset = read_cifar("cifar10", "test", cifar10_root)
    parts = first_classes(dataset)
    assert parts.known.classes == ("airplane", "automobile", "bird", "cat", "deer")
    assert parts.unseen.classes == ("dog", "frog", "horse", "ship", "truck")
    assert parts.known.labels.bincount().tolist() == parts.unseen.labels.bincount().tolist() == [2] * 5
    assert torch.equal(parts.unseen.images, dataset.images[dataset.labels >= 5])
    with pytest.raises(OptionError, match=r"1\.\.9"):
        first_classes(dataset, 10)


def test_superclasses_keep_the_fifth_sub_class_unseen(cifar100_root: Path) -> None:
    dataset = read_cifar("cifar100", "test", cifar100_root)
    parts = superclasses(dataset)
    assert parts.known.labels.bincount().tolist() == [4] * 20
    assert parts.unseen.labels.bincount().tolist() == [1] * 20
    # The image of the last sub-class of aquatic mammals by label, the whale.
    whale = dataset.images[CIFAR100_CLASSES.index("whale")]
    assert torch.equal(parts.unseen.images[parts.unseen.labels == 0][0], whale)
    fine = [max(n for n in range(100) if COARSE_OF_FINE[n] == label) for label in range(20)]
    assert torch.equal(parts.unseen.images, dataset.images[sorted(fine)])
    with pytest.raises(InputError, match="fine labels"):
        superclasses(read_cifar("cifar100", "test", cifar100_root, "coarse"))


def test_a_subset_by_size(cifar10_root: Path) -> None:
    part = subset_by_size(read_cifar("cifar10", "train", cifar10_root), 30, seed=1)
    assert part.labels.bincount().tolist() == [3] * 10


@pytest.mark.data
def test_real_protocols(real_root: Path) -> None:
    known = load_dataset("cifar100", "test", root=real_root, classes="known")
    unseen = load_dataset("cifar100", "test", root=real_root, classes="unseen")
    assert known.labels.bincount().tolist() == [400] * 20
    assert unseen.labels.bincount().tolist() == [100] * 20
    assert len(load_dataset("cifar10", "train", root=real_root, classes="known")) == 22500
