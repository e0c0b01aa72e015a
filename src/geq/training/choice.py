"""Choice of the task for a network and a dataset."""

from __future__ import annotations

from geq.data.dataset import Dataset
from geq.data.segmentation import SegmentationDataset
from geq.errors import OptionError
from geq.model.network import Network
from geq.training.segmentation import SegmentationTask
from geq.training.task import ClassificationTask, Task


def task_class(model: Network, dataset: Dataset) -> type[Task]:
    """Masks want a network that labels pixels, single labels one that classifies images."""
    name = model.registry_name or type(model).__name__
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
