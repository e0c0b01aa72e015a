"""Splits that the experiments share: held-out validation, subsets by size, known and unseen classes.

Every split depends on the labels and a seed only. The random order comes from the raw stream of PCG64,
which numpy keeps the same for ever, so a split that was written down can be made again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from geq.data.cifar import CIFAR100_CLASSES, CIFAR100_COARSE, COARSE_OF_FINE
from geq.data.dataset import ImageDataset, Labelled
from geq.errors import InputError, OptionError, check_seed

AnyLabelled = TypeVar("AnyLabelled", bound=Labelled)
Labels = Int64[Tensor, "n"]
Chosen = Int64[Tensor, "m"]


def stratified(labels: Labels, size: int, seed: int) -> tuple[Chosen, Int64[Tensor, " k"]]:
    """``size`` indices with the class shares of ``labels``, and the other indices; both in ascending order.

    Shares that are not whole numbers are rounded by largest remainder, so sizes are exact. Larger ``size``
    with the same seed contains smaller ones when the classes are equally large and ``size`` is a multiple
    of their number.

    >>> chosen, rest = stratified(torch.tensor([0, 1, 0, 1, 0, 1]), 4, seed=0)
    >>> len(chosen), len(rest), sorted(torch.tensor([0, 1, 0, 1, 0, 1])[chosen].tolist())
    (4, 2, [0, 0, 1, 1])
    """
    if not 0 <= size <= len(labels):
        raise OptionError(f"the size must lie in 0..{len(labels)}, the number of images: got {size}")
    check_seed(seed)
    kinds, counts = np.unique(labels.numpy(), return_counts=True)
    share = counts * size / max(len(labels), 1)
    taken = np.floor(share).astype(int)
    remainder = np.argsort(taken - share, kind="stable")[: size - taken.sum()]
    taken[remainder] += 1
    order = np.argsort(np.random.PCG64(seed).random_raw(len(labels)), kind="stable")
    in_order = labels.numpy()[order]
    chosen = np.zeros(len(labels), dtype=bool)
    for kind, count in zip(kinds, taken, strict=True):
        chosen[order[in_order == kind][:count]] = True
    return torch.from_numpy(np.flatnonzero(chosen)), torch.from_numpy(np.flatnonzero(~chosen))


@dataclass(frozen=True)
class Holdout:
    """A validation split held out of a training set."""

    dataset: str
    seed: int
    train: Int64[Tensor, " k"]
    validation: Chosen
    per_class: dict[str, int]

    def describe(self) -> dict[str, Any]:
        """Return the description of the protocol to record with a result.

        Enough to make the split again and to see that it is the same.
        """
        digest = hashlib.sha256(self.validation.numpy().astype("<i8").tobytes()).hexdigest()
        return {
            "dataset": self.dataset,
            "method": "stratified by label, order of PCG64",
            "seed": self.seed,
            "train": len(self.train),
            "validation": len(self.validation),
            "validation_per_class": self.per_class,
            "validation_indices_sha256": digest,
        }


def hold_out(dataset: Labelled, size: int | float, seed: int = 0) -> Holdout:
    """``size`` images of a training set, for choosing settings without the test set.

    ``size`` is a share below 1, or a number.
    """
    number = round(size * len(dataset)) if 0 < size < 1 else size
    if number != int(number):
        raise OptionError(f"a validation size must be a share below 1 or a whole number: got {size}")
    if not 0 < number < len(dataset):
        raise OptionError(
            f"validation must hold out at least one of the {len(dataset)} training images of {dataset.name} "
            f"and leave at least one: got {size}, which is {int(number)} images; 0.1 is usual"
        )
    validation, train = stratified(dataset.labels, int(number), seed)
    counts = torch.bincount(dataset.labels[validation], minlength=len(dataset.classes)).tolist()
    return Holdout(dataset.name, seed, train, validation, dict(zip(dataset.classes, counts, strict=True)))


def subset_by_size(dataset: AnyLabelled, size: int, seed: int = 0) -> AnyLabelled:
    """A stratified subset of ``size`` images."""
    return cast(AnyLabelled, dataset.subset(stratified(dataset.labels, size, seed)[0]))


def with_label_noise(dataset: AnyLabelled, share: float, seed: int = 0) -> AnyLabelled:
    """The dataset in which a ``share`` of the images of each class has a label of another class.

    >>> from geq.data.dataset_registry import load_dataset
    >>> digits = load_dataset("digits", "train")
    >>> round(float((with_label_noise(digits, 0.4).labels != digits.labels).float().mean()), 2)
    0.4
    """
    if not 0 <= share <= 1:
        raise OptionError(f"label_noise must be a share from 0 to 1: got {share}")
    if share == 0:
        return dataset
    if len(dataset.classes) < 2:
        raise OptionError(f"label_noise needs at least two classes: {dataset.name} has {dataset.classes}")
    wrong = stratified(dataset.labels, round(share * len(dataset)), seed)[0]
    raw = np.random.PCG64([seed, 1]).random_raw(len(wrong)) >> np.uint64(32)
    shift = torch.from_numpy(1 + (raw % np.uint64(len(dataset.classes) - 1)).astype(np.int64))
    labels = dataset.labels.clone()
    labels[wrong] = (labels[wrong] + shift) % len(dataset.classes)
    return cast(AnyLabelled, replace(cast(Any, dataset), labels=labels))


@dataclass(frozen=True)
class KnownUnseen:
    """One set of images in two: of classes that a model is trained on, and of classes that it never sees."""

    known: ImageDataset
    unseen: ImageDataset


def first_classes(dataset: ImageDataset, number: int = 5) -> KnownUnseen:
    """The first ``number`` classes are known, the others unseen (KerDEQ's table 3: five and five of
    CIFAR-10).

    Labels of both parts start at 0 and belong to that part's own ``classes``.
    """
    if not 0 < number < len(dataset.classes):
        raise OptionError(f"known classes must number 1..{len(dataset.classes) - 1}: got {number}")
    known = dataset.subset(torch.nonzero(dataset.labels < number)[:, 0])
    unseen = dataset.subset(torch.nonzero(dataset.labels >= number)[:, 0])
    return KnownUnseen(
        known=replace(known, classes=dataset.classes[:number]),
        unseen=replace(unseen, classes=dataset.classes[number:], labels=unseen.labels - number),
    )


def superclasses(dataset: ImageDataset) -> KnownUnseen:
    """CIFAR-100 with its 20 super-classes as labels, split by sub-class (GEQ's table 3).

    The first four sub-classes of each, by label, are known; the fifth is unseen. Takes the fine labels.
    """
    if dataset.classes != CIFAR100_CLASSES:
        raise InputError(
            "super-classes need CIFAR-100 with fine labels: "
            f"got {dataset.name} with {len(dataset.classes)} classes"
        )
    coarse = torch.tensor(COARSE_OF_FINE)
    fifth = torch.tensor([int(torch.nonzero(coarse == label).max()) for label in range(len(CIFAR100_COARSE))])
    is_fifth = torch.isin(dataset.labels, fifth)
    whole = replace(dataset, labels=coarse[dataset.labels], classes=CIFAR100_COARSE)
    return KnownUnseen(
        known=whole.subset(torch.nonzero(~is_fifth)[:, 0]), unseen=whole.subset(torch.nonzero(is_fifth)[:, 0])
    )
