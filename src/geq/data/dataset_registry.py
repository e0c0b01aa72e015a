"""The datasets by name, and the one function that loads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import torch

from geq.data.cifar import CIFAR10_STATISTICS, CIFAR100_STATISTICS, read_cifar
from geq.data.class_folders import IMAGENET_STATISTICS, FolderDataset, read_image_folder
from geq.data.dataset import ImageDataset, Statistics
from geq.data.dataset_options import SUMMARIES, DatasetOptions, Split, check_dataset_name, data_root
from geq.data.digits import DIGITS_STATISTICS, read_digits
from geq.data.download_sources import how_to_get, places_of
from geq.data.hub import HubDataset, read_hub
from geq.data.mnist import STATISTICS as MNIST_STATISTICS
from geq.data.mnist import read_mnist
from geq.data.photo_folder import find_folder, read_photos
from geq.data.restoration import DamageName, RestorationDataset
from geq.data.segmentation import (
    CAMVID_STATISTICS,
    CITYSCAPES_STATISTICS,
    SegmentationDataset,
    read_camvid,
    read_cityscapes,
)
from geq.data.splits import (
    first_classes,
    hold_out,
    stratified,
    subset_by_size,
    superclasses,
    with_label_noise,
)
from geq.errors import MissingDataError, OptionError, unknown_name

ReadDataset = ImageDataset | FolderDataset | HubDataset | SegmentationDataset
"""What is read from files."""
AnyDataset = ReadDataset | RestorationDataset
Official = Literal["train", "test"]


Reader = Callable[[Split, Path, DatasetOptions], ReadDataset]


@dataclass(frozen=True)
class DatasetInfo:
    """An entry of the registry.

    ``read`` reads an official split; ``own_val`` says that there is an official ``val``; ``options`` are
    those that ``read`` understands; ``crop`` is the training window of a dataset with masks; ``public_test``
    is false where the labels of ``test`` are kept secret, so that results are reported on ``val``.
    """

    summary: str
    read: Reader
    statistics: Statistics
    image_size: int
    channels: int = 3
    own_val: bool = False
    options: frozenset[str] = frozenset()
    crop: tuple[int, int] | None = None
    public_test: bool = True


def _cifar(name: Literal["cifar10", "cifar100"]) -> Reader:
    def read(split: Split, root: Path, options: DatasetOptions) -> ReadDataset:
        if options.classes == "all":
            return read_cifar(name, cast(Official, split), root, options.labels)
        if options.labels == "coarse":
            raise OptionError(f"classes={options.classes!r} sets the labels itself: leave labels='fine'")
        whole = read_cifar(name, cast(Official, split), root)
        parts = first_classes(whole) if name == "cifar10" else superclasses(whole)
        return parts.known if options.classes == "known" else parts.unseen

    return read


def _mnist(name: Literal["mnist", "fashion_mnist"]) -> Reader:
    return lambda split, root, options: read_mnist(name, cast(Official, split), root)


def _folders(name: str) -> Reader:
    def read(split: Split, root: Path, options: DatasetOptions) -> ReadDataset:
        places = places_of(name, root)
        folder = next((place for place in places if place.is_dir()), None)
        if options.folder is not None:
            folder = find_folder(options.folder, root)
        if folder is None:
            looked = ", ".join(map(str, places))
            raise MissingDataError(f"{name} is not there: looked for {looked}; {how_to_get(name)}")
        # ImageNet and its like publish no labels for 'test': the papers report on their 'val'.
        part: Split = "val" if split == "test" and not (folder / "test").is_dir() else split
        listed = Path(options.class_list).expanduser() if options.class_list else None
        found = read_image_folder(folder, part, class_list=listed, size=options.image_size or 256, name=name)
        return replace(found, split=split)

    return read


def _hub(split: Split, root: Path, options: DatasetOptions) -> ReadDataset:
    if options.folder is None:
        raise OptionError("hub needs the option folder: one written by save_to_disk")
    return read_hub(
        find_folder(options.folder, root),
        split,
        size=options.image_size,
        image_column=options.image_column,
        label_column=options.label_column,
    )


_FOLDER_OPTIONS = frozenset({"folder", "class_list", "image_size"})
_REGISTRY: dict[str, DatasetInfo] = {
    "digits": DatasetInfo(
        SUMMARIES["digits"],
        lambda split, root, options: read_digits(cast(Official, split)),
        DIGITS_STATISTICS,
        image_size=8,
        channels=1,
    ),
    "mnist": DatasetInfo(
        SUMMARIES["mnist"], _mnist("mnist"), MNIST_STATISTICS["mnist"], image_size=28, channels=1
    ),
    "fashion_mnist": DatasetInfo(
        SUMMARIES["fashion_mnist"],
        _mnist("fashion_mnist"),
        MNIST_STATISTICS["fashion_mnist"],
        image_size=28,
        channels=1,
    ),
    "cifar10": DatasetInfo(
        SUMMARIES["cifar10"],
        _cifar("cifar10"),
        CIFAR10_STATISTICS,
        image_size=32,
        options=frozenset({"classes"}),
    ),
    "cifar100": DatasetInfo(
        SUMMARIES["cifar100"],
        _cifar("cifar100"),
        CIFAR100_STATISTICS,
        image_size=32,
        options=frozenset({"labels", "classes"}),
    ),
    **{
        name: DatasetInfo(
            SUMMARIES[name],
            _folders(name),
            IMAGENET_STATISTICS,
            image_size=256,
            own_val=True,
            options=_FOLDER_OPTIONS,
            public_test=False,
        )
        for name in ("imagenette", "imagenet100", "imagenet")
    },
    "imagefolder": DatasetInfo(
        SUMMARIES["imagefolder"],
        read_photos,
        IMAGENET_STATISTICS,
        image_size=256,
        own_val=True,
        options=_FOLDER_OPTIONS | {"test_share"},
        public_test=False,
    ),
    "cityscapes": DatasetInfo(
        SUMMARIES["cityscapes"],
        lambda split, root, options: read_cityscapes(split, root),
        CITYSCAPES_STATISTICS,
        image_size=1024,
        own_val=True,
        crop=(512, 1024),
        public_test=False,
    ),
    "camvid": DatasetInfo(
        SUMMARIES["camvid"],
        lambda split, root, options: read_camvid(split, root),
        CAMVID_STATISTICS,
        image_size=180,
        own_val=True,
        crop=(160, 224),
    ),
    "hub": DatasetInfo(
        SUMMARIES["hub"],
        _hub,
        IMAGENET_STATISTICS,
        image_size=256,
        own_val=True,
        options=frozenset({"folder", "image_size", "image_column", "label_column"}),
    ),
}
_SUBSET = {"subset", "subset_seed", "test_subset"}
_SHARED = {"validation", "validation_seed", "label_noise", "damage", *_SUBSET}


def dataset_names() -> tuple[str, ...]:
    return tuple(_REGISTRY)


def dataset_info(name: str) -> DatasetInfo:
    check_dataset_name(name)
    return _REGISTRY[name]


def load_dataset(
    name: str,
    split: Split = "train",
    *,
    root: Path | str | None = None,
    labels: Literal["fine", "coarse"] = "fine",
    classes: Literal["all", "known", "unseen"] = "all",
    validation: float | int | None = None,
    validation_seed: int = 0,
    subset: int | None = None,
    subset_seed: int = 0,
    label_noise: float = 0.0,
    damage: DamageName | None = None,
    test_subset: int | None = None,
    folder: Path | str | None = None,
    test_share: float = 0.2,
    class_list: Path | str | None = None,
    image_size: int | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
) -> AnyDataset:
    """Read one split of a dataset below ``root`` (see :func:`geq.data.dataset_options.data_root`).

    The options are those of :class:`DatasetOptions`; one that the dataset does not have is an error.

    >>> len(load_dataset("digits", "test")), len(load_dataset("digits", "train", validation=0))
    (360, 1437)
    """
    options = DatasetOptions(
        labels=labels,
        classes=classes,
        validation=validation,
        validation_seed=validation_seed,
        subset=subset,
        subset_seed=subset_seed,
        label_noise=label_noise,
        damage=damage,
        test_subset=test_subset,
        folder=folder,
        test_share=test_share,
        class_list=class_list,
        image_size=image_size,
        image_column=image_column,
        label_column=label_column,
    )
    return load_with_options(name, split, data_root(root), options)


def load_with_options(name: str, split: Split, root: Path, options: DatasetOptions) -> AnyDataset:
    """As :func:`load_dataset`, for options that were read from a configuration."""
    info = dataset_info(name)
    if split not in ("train", "val", "test"):
        raise unknown_name("split", split, ("train", "val", "test"))
    # Scenes come from videos: images held out at random would have near twins among those trained on.
    shared = _SHARED if info.crop is None else _SUBSET
    for option in sorted(options.changed() - info.options - shared):
        known = ", ".join(sorted(info.options | shared)) or "none"
        raise OptionError(f"{name} has no option {option!r} (it has: {known})")
    dataset = _read_split(info, name, split, root, options)
    kept = options.test_subset if split == "test" and options.test_subset is not None else options.subset
    if isinstance(dataset, SegmentationDataset):
        if kept is None:
            return dataset
        return dataset.subset(stratified(torch.zeros(len(dataset)).long(), kept, options.subset_seed)[0])
    if kept is not None:
        dataset = subset_by_size(dataset, kept, options.subset_seed)
    if options.damage is not None:
        if not isinstance(dataset, ImageDataset):
            raise OptionError(f"only datasets in memory can be damaged: got {name}; take one such as cifar10")
        return RestorationDataset(dataset, options.damage)
    return with_label_noise(dataset, options.label_noise) if split == "train" else dataset


def _read_split(
    info: DatasetInfo, name: str, split: Split, root: Path, options: DatasetOptions
) -> ReadDataset:
    """The official split, or a part of train where validation images are held out of it."""
    if split == "test" or (info.own_val and options.validation is None):
        return info.read(split, root, options)
    size = 0.1 if options.validation is None else options.validation
    whole = info.read("train", root, options)
    if isinstance(whole, SegmentationDataset):
        return whole
    if size == 0:
        if split == "val":
            raise OptionError(
                f"{name} has no val split with validation=0: give the share or number to hold out of train"
            )
        return whole
    parts = hold_out(whole, size, options.validation_seed)
    chosen = whole.subset(parts.validation if split == "val" else parts.train)
    return replace(chosen, split=split)
