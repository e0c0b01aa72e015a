"""Transforms on batches of tensors: ``transform(images, generator)``."""

from geq.data.transform.base import Compose, Normalize, Resize, Transform
from geq.data.transform.crop import CropFlip, ShiftOnly
from geq.data.transform.default_transform import Augment, default_transform
from geq.data.transform.randaugment import RandAugment
from geq.data.transform.segmentation import SegmentationCrop

__all__ = [
    "Augment",
    "Compose",
    "CropFlip",
    "Normalize",
    "RandAugment",
    "Resize",
    "SegmentationCrop",
    "ShiftOnly",
    "Transform",
    "default_transform",
]
