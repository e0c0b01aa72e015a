"""A folder of images as the data of a run: how options name it, and what is said of it."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from geq.data.dataset_options import IMAGE_FOLDER, SUMMARIES
from geq.data.image_reader import image_files
from geq.errors import MissingDataError

if TYPE_CHECKING:
    from geq.data.dataset_registry import AnyDataset
    from geq.training.run_folder import RunFolder
    from geq.training.train_options import TrainOptions

log = logging.getLogger("geq.training")

MODEL = "geq_strong_small"
"""The network for photos where none is named: the default of ``geq train`` sees 8×8 pixels."""
BATCHES, LARGEST_BATCH, SMALLEST_BATCH = 8, 64, 8
"""Batches of an epoch at least, and the limits of their size, where none is named."""
FEW_STEPS = 50
"""Steps of a training after which the running means of batch norms, of momentum 0.1, have forgotten their
start; before that the network in evaluation is not the one that was trained."""


def is_folder(data: str) -> bool:
    """Return whether the name of a dataset is a folder instead: it exists, or can be nothing else.

    >>> is_folder("digits"), is_folder("photos/"), is_folder("/photos"), is_folder("cifr10")
    (False, True, True, False)
    """
    return data not in SUMMARIES and (os.sep in data or "/" in data or os.path.isdir(data))


def with_images(options: TrainOptions, folder: str) -> TrainOptions:
    """Return ``options`` with the images of ``folder``; how they are read stays as it is."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        said = "is a file" if path.exists() else "does not exist"
        raise MissingDataError(
            f"images must be in a folder with a folder for each class: {path.absolute()} {said}; the "
            f"named datasets are {', '.join(SUMMARIES)}"
        )
    kept = options.data_override if options.data == IMAGE_FOLDER else {}
    return replace(options, data=IMAGE_FOLDER, data_override={**kept, "folder": str(path.absolute())})


def fitting_batch(folder: str) -> int:
    """Return a power of two that gives few images enough steps in an epoch.

    The network for photos has batch norms; two steps an epoch would leave them without statistics for long.
    """
    number = len(image_files(Path(folder).expanduser(), "**/*"))
    fitting = 1 << max(0, (number // BATCHES).bit_length() - 1)
    return min(LARGEST_BATCH, max(SMALLEST_BATCH, fitting))


def named_in_full(options: TrainOptions) -> TrainOptions:
    """Return ``options`` that find a folder of images from everywhere, not only from where they were given.

    A folder below the data root keeps its short name: it is found wherever that is.
    """
    name = options.data_override.get("folder")
    if options.data == IMAGE_FOLDER and isinstance(name, str) and Path(name).is_dir():
        return with_images(options, name)
    return options


def in_words(options: TrainOptions, train: AnyDataset, monitored: AnyDataset, test: AnyDataset) -> list[str]:
    """Say what is trained and tested on, and at which size; nothing for data that are not such a folder."""
    from geq.data.class_folders import FolderDataset

    if not isinstance(train, FolderDataset) or not isinstance(test, FolderDataset):
        return []
    parts = [f"{len(train):,} images to train on ({train.origin})"]
    if monitored is not test:
        parts.append(f"{len(monitored):,} to validate on")
    parts.append(f"{len(test):,} to test on ({test.origin})")
    lines = [
        f"{len(train.classes)} classes: {', '.join(parts)}; {options.model} takes their middle squares at "
        f"{train.size}×{train.size}, in batches of {options.batch_size}"
    ]
    steps = options.epochs * -(-len(train) // options.batch_size)
    if steps < FEW_STEPS:
        lines.append(
            f"{steps} steps of training are few: batch norms need about {FEW_STEPS} before measurements "
            "in evaluation are meaningful; use more --epochs, or a smaller --batch_size"
        )
    return lines


def warn_of_changes(folder: RunFolder, test: AnyDataset) -> None:
    """Say so where the test images in a folder are not those of the training any more."""
    from geq.data.class_folders import FolderDataset
    from geq.data.fingerprint import Fingerprint

    if isinstance(test, FolderDataset) and folder.has_fingerprints():
        then = folder.fingerprints().get("test")
        changed = Fingerprint.of(test).difference(then if isinstance(then, dict) else {})
        if changed is not None:
            log.warning(
                "the test images are not those of the training run: %s. Where they are a share of one "
                "folder, some of them may have been trained on",
                changed,
            )
