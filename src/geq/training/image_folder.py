"""A folder of images as the data of a run: how options name it, and what is said of it."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from geq.data.catalogue import SUMMARIES
from geq.errors import MissingDataError

if TYPE_CHECKING:
    from geq.data.registry import AnyDataset
    from geq.training.option import TrainOptions
    from geq.training.run import RunFolder

log = logging.getLogger("geq.training")

NAME = "imagefolder"
"""The dataset that reads such folders."""
FOLDER = "folder="
"""How an option of the dataset begins that names the folder."""
MODEL = "geq_strong_small"
"""The network for photos where none is named: the default of ``geq train`` sees 8×8 pixels."""


def is_folder(data: str) -> bool:
    """Whether the name of a dataset is a folder instead: it is there, or can be nothing else.

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
            f"datasets that have a name are {', '.join(SUMMARIES)}"
        )
    kept = tuple(item for item in options.data_override if not item.startswith(FOLDER))
    if options.data != NAME:
        kept = ()
    return replace(options, data=NAME, data_override=(f"{FOLDER}{path.absolute()}", *kept))


def named_in_full(options: TrainOptions) -> TrainOptions:
    """Return ``options`` that find a folder of images from everywhere, not only from where they were given.

    A folder below the data root keeps its short name: it is found wherever that is.
    """
    for item in options.data_override:
        name = item.removeprefix(FOLDER).strip('"')
        if options.data == NAME and item.startswith(FOLDER) and Path(name).is_dir():
            return with_images(options, name)
    return options


def in_words(train: AnyDataset, monitored: AnyDataset, test: AnyDataset) -> str | None:
    """Say what is trained and tested on, and at which size; None for data that are not a folder of images."""
    from geq.data.folder import FolderDataset

    if not isinstance(train, FolderDataset) or not isinstance(test, FolderDataset):
        return None
    parts = [f"{len(train):,} images to train on ({train.origin})"]
    if monitored is not test:
        parts.append(f"{len(monitored):,} to validate on")
    parts.append(f"{len(test):,} to test on ({test.origin})")
    return (
        f"{len(train.classes)} classes: {', '.join(parts)}; the network sees their middle squares at "
        f"{train.size}×{train.size}"
    )


def warn_of_changes(folder: RunFolder, test: AnyDataset) -> None:
    """Say so where the test images in a folder are not those of the training any more."""
    from geq.data.fingerprint import Fingerprint
    from geq.data.folder import FolderDataset

    if isinstance(test, FolderDataset) and folder.has_fingerprints():
        then = folder.fingerprints().get("test")
        changed = Fingerprint.of(test).difference(then if isinstance(then, dict) else {})
        if changed is not None:
            log.warning(
                "the test images are not those of the training run: %s. Where they are a share of one "
                "folder, some of them may have been trained on",
                changed,
            )
