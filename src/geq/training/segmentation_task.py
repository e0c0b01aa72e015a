"""Task of labelling every pixel, and the choice between it and classification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from geq.data.dataset import Dataset
from geq.data.loader import BatchLoader
from geq.data.restoration import RestorationDataset
from geq.data.segmentation import IGNORE, SegmentationDataset
from geq.errors import OptionError
from geq.model.network import Network
from geq.training.confusion import SegmentationMeasures, class_iou
from geq.training.evaluation import EvaluationResult, evaluating
from geq.training.metrics import SolverMeasures
from geq.training.restoration_task import RestorationTask
from geq.training.run_folder import RunFolder
from geq.training.sliding_window import Inference
from geq.training.task import ClassificationTask, Task


@dataclass(frozen=True, kw_only=True)
class SegmentationResult(EvaluationResult):
    """
    Args:
        miou, macc, aacc: in %; see :mod:`geq.training.confusion`.
        class_iou: of each class by name, in %; None for one that is neither there nor predicted.
    """

    miou: float
    macc: float
    aacc: float
    class_iou: dict[str, float | None]


def pixel_cross_entropy(
    logits: Float[Tensor, "b k h w"], labels: Int64[Tensor, "b h w"], label_smoothing: float = 0.0
) -> Tensor:
    """Mean over the pixels that are not ignored; 0 (and no gradient) where all are."""
    total = functional.cross_entropy(
        logits, labels, ignore_index=IGNORE, label_smoothing=label_smoothing, reduction="sum"
    )
    return total / (labels != IGNORE).sum().clamp(min=1)


class SegmentationTask(Task):
    """Cross-entropy over pixels; mIoU, mAcc and aAcc. The best weights are those of the best mIoU."""

    headline = "miou"

    def new_measures(self) -> SegmentationMeasures:
        return SegmentationMeasures(self.model.num_classes)

    def loss(self, outputs: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
        return pixel_cross_entropy(outputs, labels, label_smoothing)

    def share_correct(self, outputs: Tensor, labels: Tensor) -> float:
        counted = labels != IGNORE
        return float((outputs.argmax(1) == labels).sum() / counted.sum().clamp(min=1))

    def infer(self, images: Tensor, seen: Callable[[], None]) -> Tensor:
        return Inference.of(self.options).logits(self.model, images, seen)

    def evaluate(self, batches: BatchLoader) -> SegmentationResult:
        return evaluate_segmenter(self.model, batches, Inference.of(self.options))

    def draw(self, folder: RunFolder, test: Dataset) -> None:
        from geq.training.segmentation_masks import draw_segmentation_run

        draw_segmentation_run(folder, self.model, test)


def evaluate_segmenter(
    model: Network, batches: BatchLoader, inference: Inference | None = None
) -> SegmentationResult:
    """The figures of one confusion matrix over all images, and solver statistics; in this process alone."""
    inference = inference or Inference()
    like = next(model.parameters())
    measures = SegmentationMeasures(model.num_classes, shared=False).to(like.device)
    solver = SolverMeasures(shared=False).to(like.device)
    with evaluating(model, batches.dataset):
        for images, labels in batches:
            labels, number = labels.to(like.device), len(images)
            logits = inference.logits(model, images.to(like), lambda: solver.update(model, number))  # noqa: B023
            measures.update(pixel_cross_entropy(logits, labels), logits, labels)
    matrix = measures.matrix()
    shares = class_iou(matrix).tolist()
    return SegmentationResult(
        images=len(batches.dataset),
        confusion=matrix.tolist(),
        class_iou={
            name: 100 * share if share == share else None
            for name, share in zip(batches.dataset.classes, shares, strict=False)
        },
        **measures.compute(),
        **solver.compute(),
    )


def task_class(model: Network, dataset: Dataset) -> type[Task]:
    """Check that damaged images meet a restorer, masks a segmenter, and single labels a classifier."""
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
            f"{dataset.name} has a label for each pixel, {name} classifies whole images: choose a model such "
            "as fcn_camvid_small, or data such as cifar10"
        )
    if labels_pixels and not has_masks:
        raise OptionError(
            f"{name} is a segmenter, {dataset.name} has one label for an image: choose data such as camvid, "
            "or a model such as resnet_small"
        )
    return SegmentationTask if labels_pixels else ClassificationTask
