"""How a dataset is to be read."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from geq.errors import CheckedOptions, OptionError, check_seed


@dataclass(frozen=True)
class DatasetOptions(metaclass=CheckedOptions):
    """How a dataset is to be read; the keyword options of :func:`load_dataset`.

    Args:
        labels: 'coarse' gives CIFAR-100 its 20 super-classes.
        classes: 'known' and 'unseen' are the two parts of the papers' protocols (CIFAR-10: first and last
            five classes; CIFAR-100: super-classes, first four and fifth sub-class).
        validation: share (below 1) or number of images held out of train as 'val'. By default the dataset's
            own 'val' split where it has one, else a tenth. 0: train is the whole official set and there is no
            'val'.
        validation_seed: which images are held out.
        subset: keep that many images, stratified.
        subset_seed: which images are kept.
        label_noise: share of the training images that get a label of another class, drawn at random.
        damage: damage the images, for a network that restores them: 'impulses', 'salt_and_pepper', 'blocks'
            or 'noise'; for datasets in memory.
        test_subset: keep that many test images, stratified.
        folder: for 'imagefolder' and 'hub', the folder to read: absolute, below the current folder or below
            the data root.
        test_share: for an 'imagefolder' of class folders without 'train' and 'val', the share of each class
            that is held out as 'test'.
        class_list: a text file of class folders to take, in order.
        image_size: side of the square that images of varying size are brought to.
        image_column: for 'hub', the column of the images, where the types of the columns do not tell.
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
