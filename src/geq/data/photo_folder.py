"""A user's own folder of images: where it is looked for, and which of its images are for testing.

``photos/train/CLASS``, with ``photos/val/CLASS`` or ``photos/test/CLASS`` beside it, is taken as it is. Of
``photos/CLASS`` alone a share of each class is held out. An image is held out by the SHA-256 of its class and
file name, not by its place in a list. So the split is the same on every machine, and images that are added
later leave nearly all others where they were.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import torch

from geq.data.class_folders import (
    IMAGENET_STATISTICS,
    SPLITS,
    FolderDataset,
    check_class_images,
    listed_classes,
    read_image_folder,
    subfolders,
    warn_of_absent,
)
from geq.data.dataset_options import IMAGE_FOLDER, OPTION, DatasetOptions, Split
from geq.data.image_reader import image_files
from geq.errors import DataError, MissingDataError, OptionError

SIZE = 256
"""Side of the images where nothing says otherwise."""


def find_folder(named: Path | str, root: Path) -> Path:
    """Return a folder of images: as it is named, else by its name in the current folder, else below ``root``.

    Runs name theirs in full, and a folder that was moved is still found by its name.
    """
    path = Path(named).expanduser()
    places = [path, Path(path.name), root / path.name] if path.is_absolute() else [path, root / path]
    for place in places:
        if place.is_dir():
            return place.absolute()
    looked = dict.fromkeys(str(place.absolute()) for place in places)
    raise MissingDataError(
        f"there is no folder {' or '.join(looked)} to read images from: go where {path.name} is, or name the "
        f"folder that holds it by {OPTION}"
    )


def read_photos(split: Split, root: Path, options: DatasetOptions) -> FolderDataset:
    """Read one part of the folder that ``options`` name."""
    if options.folder is None:
        raise OptionError(f"{IMAGE_FOLDER} needs the option folder: the one that holds your images")
    folder = find_folder(options.folder, root)
    size = SIZE if options.image_size is None else options.image_size
    listed = Path(options.class_list).expanduser() if options.class_list else None
    parts = [name for name in SPLITS if (folder / name).is_dir()]
    if is_flat(folder):
        return read_flat_folder(folder, split, options.test_share, class_list=listed, size=size)
    if parts == ["train"]:
        return read_flat_folder(folder / "train", split, options.test_share, class_list=listed, size=size)
    if not parts:
        here = f"{len(image_files(folder))} images" if image_files(folder) else "no images"
        raise DataError(
            f"{folder} must hold a folder of images for each class, such as {folder.name}/cat and "
            f"{folder.name}/dog: it holds {here} and no such folder"
        )
    part: Split = "val" if split == "test" and "test" not in parts else split
    return replace(
        read_image_folder(folder, part, class_list=listed, size=size, name=IMAGE_FOLDER), split=split
    )


def is_flat(folder: Path) -> bool:
    """Return whether the folders in ``folder`` are classes rather than splits.

    A folder ``train`` that holds images and no folders is a class of its own: pictures of trains.
    """
    found = subfolders(folder)
    splits = [name for name in found if name in SPLITS]
    classes = all(not subfolders(folder / name) and image_files(folder / name) for name in splits)
    return bool(found) and classes


def read_flat_folder(
    folder: Path,
    split: Split,
    share: float = 0.2,
    *,
    class_list: Path | None = None,
    size: int = SIZE,
    name: str = IMAGE_FOLDER,
) -> FolderDataset:
    """Read ``folder``/CLASS/*.jpeg: ``share`` of each class as ``val`` and ``test``, the rest as ``train``.

    A class of several images has at least one in each part; a single image is for training. ``class_list`` is
    as of :func:`~geq.data.class_folders.read_image_folder`.
    """
    if not 0 < share < 1:
        raise OptionError(f"test_share must be a share between 0 and 1: got {share}; 0.2 is usual")
    paths: list[Path] = []
    labels: list[int] = []
    absent: list[str] = []
    found = subfolders(folder)
    classes = found if class_list is None else listed_classes(class_list, found)
    if len(classes) < 2:
        raise DataError(
            f"{folder} must hold a folder for each class, at least two: it holds {', '.join(classes)} alone"
        )
    for label, kind in enumerate(classes):
        files = image_files(folder / kind, "**/*")
        check_class_images(folder / kind, files)
        held_out = _held_out(files, folder, share)
        chosen = [path for path in files if (path in held_out) != (split == "train")]
        absent += [] if chosen else [kind]
        paths += chosen
        labels += [label] * len(chosen)
    if not paths:
        raise DataError(f"{folder} must have two images of a class or more: one to train on, one to test on")
    part = 1 - share if split == "train" else share
    origin = f"{100 * part:.3g} % of {folder.name}"
    warn_of_absent(origin, absent)
    return FolderDataset(
        tuple(paths),
        torch.tensor(labels),
        tuple(classes),
        IMAGENET_STATISTICS,
        name,
        split,
        size,
        origin,
    )


def _held_out(files: list[Path], folder: Path, share: float) -> set[Path]:
    """Return the images of one class that are held out: those whose names have the smallest digests."""

    def digest(path: Path) -> bytes:
        return hashlib.sha256(path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape")).digest()

    number = min(max(1, round(share * len(files))), len(files) - 1)
    return set(sorted(files, key=digest)[:number])
