"""Which task a network and a dataset make together."""

from __future__ import annotations

from geq.data.dataset import Dataset
from geq.data.restoration import RestorationDataset
from geq.data.segmentation import SegmentationDataset
from geq.errors import OptionError
from geq.model.network import Network
from geq.training.restoration import RestorationTask
from geq.training.segmentation import SegmentationTask
from geq.training.task import ClassificationTask, Task


def task_class(model: Network, dataset: Dataset) -> type[Task]:
    """Damaged images want a network that restores them, masks one that labels pixels, single labels one that
    classifies images.
    """
    name = model.registry_name or type(model).__name__
    if model.restores != isinstance(dataset, RestorationDataset):
        raise OptionError(
            f"{name} restores damaged images: say which damage, such as --data.damage impulses, or choose a "
            "model such as resnet_small"
            if model.restores
            else f"the images of {dataset.name} are damaged, and {name} does not restore images: choose a "
            "model such as restorer_small, or leave --data.damage out"
        )
    if model.restores:
        return RestorationTask
    has_masks, labels_pixels = isinstance(dataset, SegmentationDataset), model.labels_pixels
    if has_masks and not labels_pixels:
        raise OptionError(
            f"{dataset.name} has a label for each pixel, {name} gives one for an image: choose a model such "
            "as fcn_camvid_small, or data such as cifar10"
        )
    if labels_pixels and not has_masks:
        raise OptionError(
            f"{name} labels pixels, {dataset.name} has one label for an image: choose data such as camvid, "
            "or a model such as resnet_small"
        )
    return SegmentationTask if labels_pixels else ClassificationTask
