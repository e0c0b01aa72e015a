"""The figures of segmentation against cases by hand and against torchmetrics."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torchmetrics.classification import MulticlassAccuracy, MulticlassJaccardIndex

from geq.data.segmentation import IGNORE
from geq.errors import InputError
from geq.training.confusion import Confusion, SegmentationMeasures, class_accuracy, class_iou, summarise
from geq.training.segmentation_task import pixel_cross_entropy


def matrix_of(predicted: list[int], truth: list[int], classes: int) -> Tensor:
    confusion = Confusion(classes, IGNORE)
    confusion.update(torch.tensor(predicted).view(1, 1, -1), torch.tensor(truth).view(1, 1, -1))
    return confusion.compute()


def one_hot(labels: Tensor, classes: int) -> Tensor:
    return torch.nn.functional.one_hot(labels, classes).movedim(-1, 1).float()


def test_a_case_by_hand() -> None:
    # class 0: 3 pixels, 2 found, none false; class 1: 2 pixels, both found, 1 false; one pixel ignored.
    matrix = matrix_of([0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, IGNORE], 2)
    assert matrix.tolist() == [[2, 1], [0, 2]]
    assert class_iou(matrix).tolist() == [2 / 3, 2 / 3]
    assert class_accuracy(matrix).tolist() == [2 / 3, 1]
    assert summarise(matrix) == pytest.approx({"miou": 200 / 3, "macc": 500 / 6, "aacc": 80})


def test_absent_classes_are_left_out_of_the_means() -> None:
    # class 2 is neither there nor predicted, class 3 is predicted only: no accuracy, and an IoU of 0.
    matrix = matrix_of([0, 1, 3], [0, 1, 1], 4)
    iou, accuracy = class_iou(matrix).tolist(), class_accuracy(matrix).tolist()
    assert iou[:2] == [1, 0.5]
    assert math.isnan(iou[2])
    assert iou[3] == 0
    assert accuracy[:2] == [1, 0.5]
    assert math.isnan(accuracy[2])
    assert math.isnan(accuracy[3])
    assert summarise(matrix) == pytest.approx({"miou": 50, "macc": 75, "aacc": 200 / 3})


def test_nothing_counted() -> None:
    assert summarise(matrix_of([1, 0], [IGNORE, IGNORE], 2)) == {"miou": 0, "macc": 0, "aacc": 0}


@pytest.mark.parametrize("classes", [2, 5, 11])
def test_torchmetrics_agrees_over_batches(classes: int) -> None:
    options = {"num_classes": classes, "ignore_index": IGNORE, "average": "macro"}
    theirs = {
        "miou": MulticlassJaccardIndex(**options),
        "macc": MulticlassAccuracy(**options),
        "aacc": MulticlassAccuracy(**{**options, "average": "micro"}),
    }
    ours = SegmentationMeasures(classes)
    for _ in range(3):
        labels = torch.randint(classes, (2, 6, 7))
        predicted = torch.where(torch.rand(2, 6, 7) < 0.6, labels, torch.randint(classes, (2, 6, 7)))
        labels[torch.rand(2, 6, 7) < 0.2] = IGNORE
        ours.update(torch.tensor(1.0), one_hot(predicted, classes), labels)
        for metric in theirs.values():
            metric.update(predicted, labels)
    found = ours.compute()
    for name, metric in theirs.items():
        assert found[name] == pytest.approx(100 * float(metric.compute()), rel=1e-5), name


def test_the_matrix_is_of_all_images_together() -> None:
    """Not the mean over images, which a lucky small one would lift."""
    measures = SegmentationMeasures(2)
    for predicted, truth in (([0], [0]), ([0, 0, 0], [1, 1, 0])):
        labels = torch.tensor(truth).view(1, 1, -1)
        measures.update(torch.tensor(0.0), one_hot(torch.tensor(predicted).view(1, 1, -1), 2), labels)
    assert measures.compute()["miou"] == pytest.approx(100 * (2 / 4 + 0) / 2)


def test_the_loss_is_per_counted_pixel() -> None:
    measures = SegmentationMeasures(2)
    logits = torch.zeros(1, 2, 1, 2)
    measures.update(torch.tensor(1.0), logits, torch.tensor([[[0, 1]]]))
    measures.update(torch.tensor(4.0), logits, torch.tensor([[[0, IGNORE]]]))
    assert measures.compute()["loss"] == pytest.approx((2 * 1 + 1 * 4) / 3)


def test_sums_survive_a_checkpoint() -> None:
    measures = SegmentationMeasures(3)
    labels = torch.randint(3, (2, 4, 4))
    measures.update(torch.tensor(0.7), torch.randn(2, 3, 4, 4), labels)
    again = SegmentationMeasures(3)
    again.load_state_dict(measures.state_dict())
    assert again.compute() == measures.compute()
    measures.reset()
    assert measures.compute() == {}


def test_labels_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match=r"labels must lie in 0\.\.1, or be 255 .*: got 0\.\.2"):
        matrix_of([0, 1], [0, 2], 2)


def test_cross_entropy_ignores_void_pixels() -> None:
    logits = torch.randn(2, 3, 4, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(3, (2, 4, 5))
    labels[:, 0] = IGNORE
    by_hand = -logits.log_softmax(1).gather(1, labels.clamp(max=2)[:, None])[:, 0]
    torch.testing.assert_close(pixel_cross_entropy(logits, labels), by_hand[labels != IGNORE].mean())
    (gradient,) = torch.autograd.grad(pixel_cross_entropy(logits, labels), logits)
    assert gradient[:, :, 0].eq(0).all()
    assert gradient[:, :, 1:].ne(0).all()


def test_a_batch_of_void_has_no_loss_and_no_nan() -> None:
    logits = torch.randn(1, 3, 2, 2, requires_grad=True)
    loss = pixel_cross_entropy(logits, torch.full((1, 2, 2), IGNORE))
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None
    assert logits.grad.eq(0).all()
