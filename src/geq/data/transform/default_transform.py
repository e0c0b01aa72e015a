"""Transforms of each dataset for training and evaluation."""

from __future__ import annotations

from typing import Literal

from geq.data.dataset import Statistics
from geq.data.dataset_registry import dataset_info
from geq.data.transform.base import Compose, Normalize, Transform
from geq.data.transform.crop import CropFlip, ShiftOnly
from geq.data.transform.randaugment import RandAugment
from geq.data.transform.segmentation import SegmentationCrop
from geq.errors import OptionError

Augment = Literal["none", "crop_flip", "randaugment", "shift"]


def default_transform(
    dataset_name: str, train: bool, augment: Augment = "none", *, statistics: Statistics | None = None
) -> Transform:
    """Normalisation with the dataset's statistics, after ``augment`` when ``train`` is true.

    ``crop_flip`` pads by an eighth of the side (4 pixels on CIFAR); ``randaugment`` is crop and flip
    followed by RandAugment; ``shift`` moves by one pixel. Segmentation knows ``none`` and ``crop_flip``,
    which there is random scale, crop and flip. ``statistics`` replace those of the name, for datasets that
    measure their own (``hub``).
    """
    info = dataset_info(dataset_name)
    normalize = Normalize.by(statistics or info.statistics)
    if not train or augment == "none":
        return normalize
    if info.crop is not None:
        if augment != "crop_flip":
            raise OptionError(
                f"{dataset_name} has masks: augment must be 'none' or 'crop_flip': got {augment!r}"
            )
        return Compose((SegmentationCrop(*info.crop), normalize))
    if augment == "shift":
        return Compose((ShiftOnly(1), normalize))
    crop = CropFlip(padding=max(1, info.image_size // 8))
    return Compose((crop, normalize) if augment == "crop_flip" else (crop, RandAugment(), normalize))
