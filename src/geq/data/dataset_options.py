"""Names, folder and options of the datasets: no torch is needed to list or check them."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from geq.cache_folder import user_cache
from geq.errors import CheckedOptions, OptionError, check_seed, unknown_name

Split = Literal["train", "val", "test"]

IMAGE_FOLDER = "imagefolder"
"""The dataset that reads a user's own folder."""

SUMMARIES: dict[str, str] = {
    "digits": "scikit-learn's digits, 8×8, comes with the package",
    "mnist": "handwritten digits, 28×28",
    "fashion_mnist": "clothes, 28×28",
    "cifar10": "10 classes, 32×32",
    "cifar100": "100 classes in 20 super-classes, 32×32",
    "imagenette": "10 easy classes of ImageNet",
    "imagenet100": "100 classes of ImageNet: its own folder, or 'imagenet' with a class list",
    "imagenet": "ImageNet's 1,000 classes",
    IMAGE_FOLDER: "your own folder of images, with a folder for each class",
    "cityscapes": "street scenes, 19 classes, 2048×1024",
    "camvid": "street scenes, 11 classes",
    "hub": "a Hugging Face image dataset saved on disk",
}
"""Name -> what the dataset is; :mod:`geq.data.dataset_registry` says how each is read."""


def check_dataset_name(name: str) -> None:
    """Refuse a name that no dataset has."""
    if name not in SUMMARIES:
        raise unknown_name("dataset or folder of images", name, SUMMARIES)


@dataclass(frozen=True)
class DatasetOptions(metaclass=CheckedOptions):
    """Options of reading a dataset, the keywords of :func:`load_dataset`.

    Args:
        labels: 'coarse' gives CIFAR-100 its 20 super-classes.
        classes: 'known' and 'unseen' are the two parts of the papers' protocols (CIFAR-10: first and last
            five classes; CIFAR-100: super-classes, first four and fifth sub-class).
        validation: share (below 1) or number of images held out of train as 'val'. By default the dataset's
            own 'val' split where it has one, else a tenth. 0: train is the whole official set and there is no
            'val'.
        validation_seed: seed of the choice of held-out images.
        subset: number of images to keep, stratified.
        subset_seed: seed of the choice of images to keep.
        label_noise: share of the training images that get a label of another class, drawn at random.
        damage: damage the images, for a network that restores them: 'impulses', 'salt_and_pepper', 'blocks'
            or 'noise'; for datasets in memory.
        test_subset: keep that many test images, stratified.
        folder: for 'imagefolder' and 'hub', the folder to read: absolute, below the current folder or below
            the data root.
        test_share: for an 'imagefolder' of class folders without 'train' and 'val', the share of each class
            that is held out as 'test'.
        class_list: text file with the class folders to take, in order.
        image_size: side of the square to which images of varying size are resized.
        image_column: for 'hub', the column of the images, where the types of the columns are ambiguous.
        label_column: for 'hub', the column of the labels, likewise.
    """

    labels: Literal["fine", "coarse"] = "fine"
    classes: Literal["all", "known", "unseen"] = "all"
    validation: float | int | None = None
    validation_seed: int = 0
    subset: int | None = None
    subset_seed: int = 0
    label_noise: float = 0.0
    damage: Literal["impulses", "salt_and_pepper", "blocks", "noise"] | None = None
    test_subset: int | None = None
    folder: Path | str | None = None
    test_share: float = 0.2
    class_list: Path | str | None = None
    image_size: int | None = None
    image_column: str | None = None
    label_column: str | None = None

    def __post_init__(self) -> None:
        for name in ("subset", "test_subset"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise OptionError(f"{name} must be at least 1 image: got {number}")
        check_seed(self.validation_seed, "validation_seed")
        check_seed(self.subset_seed, "subset_seed")

    def changed(self) -> set[str]:
        """Names of the options that differ from their default."""
        return {field.name for field in fields(self) if getattr(self, field.name) != field.default}


VARIABLE = "GEQ_DATA"
OPTION = "--data_root"
"""The option of the commands that names the folder; messages take it from here."""


def data_root(explicit: Path | str | None = None) -> Path:
    """The folder that holds the datasets: ``explicit``, else ``$GEQ_DATA``, else the user's cache folder.

    >>> data_root("pictures").name
    'pictures'
    """
    chosen = explicit or os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else user_cache() / "geq" / "data"
