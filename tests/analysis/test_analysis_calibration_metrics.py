"""Calibration metrics against cases worked out by hand and against torchmetrics."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torchmetrics.functional.classification import multiclass_calibration_error

from geq.analysis.calibration_metrics import (
    Reliability,
    accuracy,
    brier_score,
    divergence_from_uniform,
    negative_log_likelihood,
    summary,
)
from geq.errors import InputError, OptionError


def logits_of(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64).log()


HAND = logits_of([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.45, 0.55]])
LABELS = torch.tensor([0, 1, 1, 0])


def test_a_case_by_hand() -> None:
    """Two bins: all four confidences lie above ½, mean (.9 + .8 + .7 + .55)/4 = .7375, two are right."""
    found = Reliability.of(HAND, LABELS, bins=2)
    assert found.count.tolist() == [0, 4]
    assert found.expected_error == pytest.approx(0.2375)
    assert accuracy(HAND, LABELS) == 50.0
    assert negative_log_likelihood(HAND, LABELS) == pytest.approx(
        -(math.log(0.9) + math.log(0.2) + math.log(0.7) + math.log(0.45)) / 4
    )
    assert brier_score(HAND, LABELS) == pytest.approx(2 * (0.01 + 0.64 + 0.09 + 0.3025) / 4)


def test_bins_by_hand() -> None:
    """Ten bins: each image has its own; the gaps are .1, .8, .3 and .55."""
    found = Reliability.of(HAND, LABELS, bins=10)
    assert found.expected_error == pytest.approx((0.1 + 0.8 + 0.3 + 0.55) / 4)
    assert found.largest_error == pytest.approx(0.8)
    assert summary(HAND, LABELS, 10)["mce"] == found.largest_error


@pytest.mark.parametrize("bins", [1, 5, 15])
@pytest.mark.parametrize("sharpness", [0.3, 1.0, 4.0])
def test_against_torchmetrics(bins: int, sharpness: float) -> None:
    logits = sharpness * torch.randn(700, 6, dtype=torch.float64)
    labels = torch.randint(0, 6, (700,))
    labels[:300] = logits[:300].argmax(1)
    found = Reliability.of(logits, labels, bins)
    probabilities = logits.softmax(1)
    for norm, ours in (("l1", found.expected_error), ("max", found.largest_error)):
        theirs = multiclass_calibration_error(probabilities, labels, 6, n_bins=bins, norm=norm)  # type: ignore[arg-type]
        assert ours == pytest.approx(float(theirs), abs=1e-6)


def test_certain_and_right_is_perfect_and_certain_and_wrong_is_worst() -> None:
    logits = torch.tensor([[800.0, 0.0], [0.0, 800.0]])
    right, wrong = torch.tensor([0, 1]), torch.tensor([1, 0])
    assert summary(logits, right, 15) | {"images": 0} == {
        "images": 0,
        "accuracy": 100.0,
        "confidence": 100.0,
        "ece": 0.0,
        "mce": 0.0,
        "nll": 0.0,
        "brier": 0.0,
    }
    assert brier_score(logits, wrong) == 2.0
    assert negative_log_likelihood(logits, wrong) == 800.0  # not infinite, as log(softmax) would be
    assert Reliability.of(logits, wrong).expected_error == 1.0


def test_divergences_of_the_protocol() -> None:
    """KL(p, uniform) by its definition; 0 for a uniform prediction, log K for a certain one."""
    logits = torch.randn(50, 5, dtype=torch.float64)
    p = logits.softmax(1)
    expected = (p * (p / 0.2).log()).sum(1)
    torch.testing.assert_close(divergence_from_uniform(logits), expected)
    extreme = torch.tensor([[0.0] * 5, [1000.0, 0, 0, 0, 0]])
    assert divergence_from_uniform(extreme).tolist() == pytest.approx([0.0, math.log(5)])


def test_what_cannot_be_measured_is_said() -> None:
    with pytest.raises(InputError, match=r"0..1, the classes of the network: got 0..4"):
        negative_log_likelihood(HAND, torch.tensor([0, 1, 4, 1]))
    with pytest.raises(InputError, match="needs images"):
        accuracy(HAND[:0], LABELS[:0])
    with pytest.raises(OptionError, match="bins must be at least 1: got 0"):
        Reliability.of(HAND, LABELS, bins=0)
