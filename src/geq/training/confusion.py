"""Confusion matrix over all images or pixels, and the figures made of it.

With C[t, p] the number of images, or of pixels of all images together, of class t that were given class p:

    IoU_k = C[k, k] / (Σ_p C[k, p] + Σ_t C[t, k] − C[k, k])     Acc_k = C[k, k] / Σ_p C[k, p]
    mIoU = mean of IoU_k     mAcc = mean of Acc_k     aAcc = Σ_k C[k, k] / Σ C

Pixels labelled :data:`~geq.data.segmentation.IGNORE` are not counted. A class that is neither there nor
predicted has no IoU, and one that is not there no accuracy: the means leave them out.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torchmetrics import MeanMetric, Metric

from geq.data.segmentation import IGNORE
from geq.errors import InputError
from geq.training.metrics import TaskMeasures


class Confusion(Metric):
    """The matrix C, summed over batches and processes.

    Args:
        num_classes: number of classes.
        ignore: label that is not counted; None counts all.
        sync_on_compute: whether the processes of a run measure together.

    >>> confusion = Confusion(2, ignore=IGNORE)
    >>> confusion.update(torch.tensor([[[0, 1, 1, 1]]]), torch.tensor([[[0, 0, 1, IGNORE]]]))
    >>> confusion.compute().tolist()
    [[1, 1], [0, 1]]
    """

    full_state_update = False
    matrix: Tensor

    def __init__(self, num_classes: int, ignore: int | None = None, sync_on_compute: bool = True) -> None:
        super().__init__(sync_on_compute=sync_on_compute)
        self.num_classes, self.ignore = num_classes, ignore
        self.add_state("matrix", torch.zeros(num_classes, num_classes, dtype=torch.int64), "sum")

    def update(self, predicted: Int64[Tensor, " b *place"], labels: Int64[Tensor, " b *place"]) -> None:
        counted = torch.ones_like(labels, dtype=torch.bool) if self.ignore is None else labels != self.ignore
        truth, found = labels[counted], predicted[counted]
        if truth.numel() and not 0 <= int(truth.min()) <= int(truth.max()) < self.num_classes:
            raise InputError(
                f"labels must lie in 0..{self.num_classes - 1}"
                + ("" if self.ignore is None else f", or be {self.ignore} where they are ignored")
                + f": got {int(truth.min())}..{int(truth.max())}"
            )
        pairs = torch.bincount(self.num_classes * truth + found, minlength=self.num_classes**2)
        self.matrix += pairs.view(self.num_classes, self.num_classes)

    def compute(self) -> Int64[Tensor, "k k"]:
        return self.matrix


def class_iou(matrix: Int64[Tensor, "k k"]) -> Float[Tensor, " k"]:
    """IoU of each class; NaN for a class that is neither there nor predicted."""
    hit = matrix.diagonal().double()
    return hit / (matrix.sum(1) + matrix.sum(0) - matrix.diagonal())


def class_accuracy(matrix: Int64[Tensor, "k k"]) -> Float[Tensor, " k"]:
    """Share of each class's images or pixels that were found; NaN for an absent class."""
    return matrix.diagonal().double() / matrix.sum(1)


def summarise(matrix: Int64[Tensor, "k k"]) -> dict[str, float]:
    """mIoU, mAcc and aAcc in %; all 0 where not one pixel was counted."""
    total = int(matrix.sum())
    if total == 0:
        return {"miou": 0.0, "macc": 0.0, "aacc": 0.0}
    return {
        "miou": 100 * float(class_iou(matrix).nanmean()),
        "macc": 100 * float(class_accuracy(matrix).nanmean()),
        "aacc": 100 * float(matrix.diagonal().sum()) / total,
    }


class SegmentationMeasures(TaskMeasures):
    """Loss per pixel, and mIoU, mAcc and aAcc in %.

    Args:
        num_classes: number of classes.
        shared: whether the processes of a run measure together, or this one by itself.
    """

    def __init__(self, num_classes: int, shared: bool = True) -> None:
        super().__init__(
            {
                "loss": MeanMetric(sync_on_compute=shared),
                "confusion": Confusion(num_classes, IGNORE, sync_on_compute=shared),
            }
        )

    def update(self, loss: Tensor, outputs: Float[Tensor, "b k h w"], labels: Int64[Tensor, "b h w"]) -> None:
        pixels = float((labels != IGNORE).sum())
        self.members()["loss"].update(loss.detach(), weight=pixels)
        self.members()["confusion"].update(outputs.detach().argmax(1), labels)

    def matrix(self) -> Int64[Tensor, "k k"]:
        """The counts so far, over all processes."""
        found = self.members()["confusion"].compute()
        assert isinstance(found, Tensor)
        return found

    def compute(self) -> dict[str, float]:
        loss = self.members()["loss"]
        if not loss.update_called:
            return {}
        return {"loss": float(loss.compute()), **summarise(self.matrix())}
