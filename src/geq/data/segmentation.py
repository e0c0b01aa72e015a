"""Street scenes with a label for each pixel: Cityscapes and CamVid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from geq.data.dataset import Indices, Statistics, check_indices
from geq.data.dataset_options import Split
from geq.data.download_sources import how_to_get, places_of
from geq.data.image_reader import image_files, read_image, read_mask
from geq.errors import DataError, MissingDataError

IGNORE = 255
"""Label of pixels that are neither learned nor evaluated."""

CITYSCAPES_TRAIN_IDS: dict[int, str] = {
    7: "road",
    8: "sidewalk",
    11: "building",
    12: "wall",
    13: "fence",
    17: "pole",
    19: "traffic light",
    20: "traffic sign",
    21: "vegetation",
    22: "terrain",
    23: "sky",
    24: "person",
    25: "rider",
    26: "car",
    27: "truck",
    28: "bus",
    31: "train",
    32: "motorcycle",
    33: "bicycle",
}
"""Official label id -> class, in the order of the 19 train ids; every other id is ignored."""
CITYSCAPES_IDS = 34
CAMVID_CLASSES = (
    *("sky", "building", "pole", "road", "pavement", "tree"),
    *("sign symbol", "fence", "car", "pedestrian", "bicyclist"),
)
CITYSCAPES_STATISTICS = Statistics((0.2869, 0.3251, 0.2839), (0.1870, 0.1902, 0.1872))
CAMVID_STATISTICS = Statistics((0.4114, 0.4246, 0.4321), (0.3021, 0.3061, 0.3020))


@dataclass(frozen=True)
class SegmentationDataset:
    """Images with masks, read when they are asked for; ``train_id[v]`` is the label of mask value v."""

    paths: tuple[tuple[Path, Path], ...]
    train_id: UInt8[np.ndarray, "256"]
    known: frozenset[int]
    classes: tuple[str, ...]
    statistics: Statistics
    name: str
    split: Split

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, index: int) -> tuple[UInt8[Tensor, "3 h w"], Int64[Tensor, "h w"]]:
        image_path, mask_path = self.paths[index]
        image, mask = read_image(image_path), read_mask(mask_path)
        if image.shape[:2] != mask.shape:
            raise DataError(
                f"{mask_path} is {mask.shape}, its image {image_path} {image.shape[:2]}: they must be alike"
            )
        strange = set(np.unique(mask).tolist()) - self.known
        if strange:
            raise DataError(
                f"{mask_path} has labels {sorted(strange)} unknown to {self.name}: label ids are expected"
            )
        label = torch.from_numpy(self.train_id[mask].astype(np.int64))
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))), label

    def batch(self, indices: Int64[Tensor, " b"]) -> tuple[UInt8[Tensor, "b 3 h w"], Int64[Tensor, "b h w"]]:
        images, masks = zip(*(self.read(index) for index in indices.tolist()), strict=True)
        if len({image.shape for image in images}) > 1:
            shapes = sorted({tuple(image.shape) for image in images})
            raise DataError(f"{self.name}: images of one batch must have one size: got {shapes}")
        return torch.stack(images), torch.stack(masks)

    def subset(self, indices: Indices) -> SegmentationDataset:
        return replace(self, paths=tuple(self.paths[i] for i in check_indices(indices, len(self)).tolist()))


def read_cityscapes(split: Split, root: Path) -> SegmentationDataset:
    """leftImg8bit/SPLIT/CITY/*_leftImg8bit.png with gtFine/SPLIT/CITY/*_gtFine_labelIds.png, 19 train ids."""
    base = _first_folder(root, "cityscapes")
    if split == "test":
        raise DataError("the labels of Cityscapes' test split are not public: evaluate on 'val'")
    images = base / "leftImg8bit" / split

    def mask_of(image: Path) -> Path:
        stem = image.name.removesuffix("_leftImg8bit.png")
        return base / "gtFine" / split / image.parent.name / f"{stem}_gtFine_labelIds.png"

    table = np.full(256, IGNORE, dtype=np.uint8)
    for train_id, label_id in enumerate(CITYSCAPES_TRAIN_IDS):
        table[label_id] = train_id
    return SegmentationDataset(
        paths=_pairs(image_files(images, "*/*_leftImg8bit.png"), mask_of, images),
        train_id=table,
        known=frozenset(range(CITYSCAPES_IDS)) | {IGNORE},
        classes=tuple(CITYSCAPES_TRAIN_IDS.values()),
        statistics=CITYSCAPES_STATISTICS,
        name="cityscapes",
        split=split,
    )


def read_camvid(split: Split, root: Path) -> SegmentationDataset:
    """SPLIT/NAME.png (or .jpg) with SPLITannot/NAME.png.

    Masks hold 0..10, and 11 for void, which becomes :data:`IGNORE`.
    """
    base = _first_folder(root, "camvid")
    table = np.full(256, IGNORE, dtype=np.uint8)
    table[: len(CAMVID_CLASSES)] = np.arange(len(CAMVID_CLASSES))
    images = base / split
    return SegmentationDataset(
        paths=_pairs(
            image_files(images),
            lambda image: base / f"{split}annot" / f"{image.stem}.png",
            images,
        ),
        train_id=table,
        known=frozenset(range(len(CAMVID_CLASSES) + 1)),
        classes=CAMVID_CLASSES,
        statistics=CAMVID_STATISTICS,
        name="camvid",
        split=split,
    )


def _first_folder(root: Path, name: str) -> Path:
    places = places_of(name, root)
    for place in places:
        if place.is_dir():
            return place
    raise MissingDataError(
        f"{name} is not below {root}: it must hold the folder {places[0].name}; {how_to_get(name)}"
    )


def _pairs(images: list[Path], mask_of: Callable[[Path], Path], place: Path) -> tuple[tuple[Path, Path], ...]:
    if not images:
        raise DataError(f"{place} has no images: unpack the dataset there again")
    pairs = tuple((image, mask_of(image)) for image in images)
    missing = [mask for _, mask in pairs if not mask.is_file()]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(pairs)} images of {place} have no mask, the first being {missing[0]}"
        )
    return pairs
