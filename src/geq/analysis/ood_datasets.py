"""Images unlike those that a network was trained on.

A run on the known classes of a dataset has the unseen ones (KerDEQ's protocol). Elsewhere a dataset can be
named; without one two stand-ins are made, which need no data: uniform noise, and the run's own test images
with their pixels in random order (the colours of each image stay, its structure goes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from geq.analysis.analysed_network import Subject
from geq.data.dataset import Dataset, Derived, ImageDataset, Labelled, Statistics
from geq.data.dataset_registry import load_dataset
from geq.data.loader import seeded
from geq.data.splits import stratified
from geq.data.transform.base import Resize
from geq.errors import InputError
from geq.training.prediction import GREY
from geq.training.setup import open_split

MOST = 10_000
"""Images of a stand-in, at most."""
Shape = tuple[int, int, int]


def limited(dataset: Labelled, limit: int | None) -> Labelled:
    """At most ``limit`` images, with the class shares of the whole; the same ones every time."""
    if limit is None or limit >= len(dataset):
        return dataset
    return dataset.subset(stratified(dataset.labels, limit, seed=0)[0])


def shape_of(dataset: Dataset) -> Shape:
    images, _ = dataset.batch(torch.zeros(1, dtype=torch.int64))
    channels, height, width = images.shape[1:]
    return int(channels), int(height), int(width)


def sized(shape: Shape) -> str:
    return "×".join(map(str, shape))


def trained_on_known_classes(subject: Subject) -> bool:
    return bool(subject.options.data_override.get("classes") == "known")


def strange_sets(subject: Subject, test: Labelled) -> dict[str, Dataset]:
    """The sets that the run can be shown, by name."""
    settings = subject.settings
    found: dict[str, Dataset] = {}
    if trained_on_known_classes(subject):
        chosen = {**subject.options.data_override, "classes": "unseen"}
        unseen = open_split(replace(subject.options, data_override=chosen), "test")
        assert isinstance(unseen, Labelled)
        found["unseen classes"] = limited(unseen, settings.limit)
    if settings.ood is not None:
        found[settings.ood] = other_dataset(subject, settings.ood)
    if not found:
        found["uniform noise"] = stand_in(test, settings.seed, noise)
        found["shuffled pixels"] = stand_in(test, settings.seed, shuffled)
    return found


def other_dataset(subject: Subject, name: str) -> Dataset:
    """The test images of another dataset, if they have the shape of the run's or may be given it."""
    if name == subject.options.data:
        raise InputError(f"ood must be another dataset than the run's own: got {name} for both")
    dataset = load_dataset(name, "test", root=subject.data_root)
    if not isinstance(dataset, Labelled):
        raise InputError(f"ood must be a dataset with one label per image: {name} has masks")
    wanted, came = subject.folder.data().shape, shape_of(dataset)
    chosen = limited(dataset, subject.settings.limit)
    if wanted == came:
        return chosen
    if not subject.settings.ood_resize:
        raise InputError(
            f"images of ood must have the network's size, {sized(wanted)}: {name} has {sized(came)}; "
            "add --ood_resize to resize them"
        )
    return Reshaped(chosen, wanted)


@dataclass(frozen=True)
class Reshaped(Derived):
    """A dataset at another size and with other channels: grey is repeated, colours become brightness."""

    shape: Shape

    @property
    def name(self) -> str:
        return f"{self.source.name} at {sized(self.shape)}"

    @property
    def statistics(self) -> Statistics:
        channels = self.shape[0]
        return Statistics((0.5,) * channels, (0.5,) * channels)

    def batch(self, indices: Int64[Tensor, " b"]) -> tuple[UInt8[Tensor, "b c h w"], Int64[Tensor, " b"]]:
        images, labels = self.source.batch(indices)
        channels, height, width = self.shape
        if images.shape[1] == 1:
            images = images.expand(-1, channels, -1, -1)
        elif channels == 1 and images.shape[1] == 3:
            brightness = (images * torch.tensor(GREY).view(1, 3, 1, 1)).sum(1, keepdim=True)
            images = brightness.round().clamp(0, 255).to(torch.uint8)
        elif images.shape[1] != channels:
            raise InputError(f"{self.source.name} has {images.shape[1]} channels and the network {channels}")
        return Resize(height, width)(images.contiguous(), torch.Generator()), labels


Maker = Callable[[UInt8[Tensor, "n c h w"], torch.Generator], UInt8[Tensor, "n c h w"]]


def noise(images: UInt8[Tensor, "n c h w"], random: torch.Generator) -> UInt8[Tensor, "n c h w"]:
    """Every byte uniform from 0 to 255."""
    return torch.randint(0, 256, images.shape, generator=random, dtype=torch.uint8)


def shuffled(images: UInt8[Tensor, "n c h w"], random: torch.Generator) -> UInt8[Tensor, "n c h w"]:
    """The pixels of each image in an order of its own; the channels of a pixel stay together."""
    count, channels, height, width = images.shape
    order = torch.rand(count, 1, height * width, generator=random).argsort(2)
    return images.flatten(2).gather(2, order.expand(-1, channels, -1)).view_as(images)


def stand_in(test: Labelled, seed: int, make: Maker) -> ImageDataset:
    """As many made images as there are test images; they have no label of meaning."""
    images, _ = test.batch(torch.arange(min(len(test), MOST)))
    made = make(images, seeded(seed))
    labels = torch.zeros(len(made), dtype=torch.int64)
    return ImageDataset(made, labels, ("none",), test.statistics, "stand-in", "test")
