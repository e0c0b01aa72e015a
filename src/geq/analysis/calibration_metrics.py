"""Reliability of a classifier's probabilities: ECE, NLL, Brier score, divergences."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from geq.errors import InputError, OptionError

Logits = Float[Tensor, "n classes"]
Labels = Int64[Tensor, "n"]


@dataclass(frozen=True)
class Reliability:
    """Images in bins of equal width by confidence, the probability of the predicted class.

    Bin i of M holds the confidences in [i/M, (i + 1)/M), the last one 1 as well.

    Args:
        count: images in each bin.
        confidence, accuracy: their means there; NaN in an empty bin.
    """

    count: Int64[Tensor, " bins"]
    confidence: Float[Tensor, " bins"]
    accuracy: Float[Tensor, " bins"]

    @property
    def gaps(self) -> Float[Tensor, " bins"]:
        """|accuracy − confidence|, 0 in an empty bin."""
        return (self.accuracy - self.confidence).abs().nan_to_num(0.0)

    @property
    def expected_error(self) -> float:
        """ECE: the mean over images of the gap of their bin (Guo et al. 2017, eq. 3)."""
        return float((self.gaps * self.count).sum() / self.count.sum())

    @property
    def largest_error(self) -> float:
        """MCE: the gap of the worst bin."""
        return float(self.gaps.max())

    @classmethod
    def of(cls, logits: Logits, labels: Labels, bins: int = 15) -> Reliability:
        """
        >>> halves = torch.tensor([[0.0, 0.0], [0.0, 0.0]])
        >>> Reliability.of(halves, torch.tensor([0, 1])).expected_error
        0.0
        """
        check(logits, labels)
        if bins < 1:
            raise OptionError(f"bins must be at least 1: got {bins}")
        confidence, predicted = logits.double().softmax(1).max(1)
        right = (predicted == labels).double()
        bin_of = (confidence * bins).long().clamp_(max=bins - 1)
        count = torch.bincount(bin_of, minlength=bins)
        sums = torch.zeros(2, bins, dtype=torch.float64)
        sums[0].index_add_(0, bin_of, confidence)
        sums[1].index_add_(0, bin_of, right)
        mean_confidence, accuracy = sums / count
        return cls(count, mean_confidence, accuracy)


def check(logits: Logits, labels: Labels) -> None:
    if not len(labels):
        raise InputError("calibration needs images: got none")
    if not 0 <= int(labels.min()) <= int(labels.max()) < logits.shape[1]:
        raise InputError(
            f"labels must lie in 0..{logits.shape[1] - 1}, the classes of the network: got "
            f"{int(labels.min())}..{int(labels.max())}; choose the data that it was trained on"
        )


def negative_log_likelihood(logits: Logits, labels: Labels) -> float:
    """Mean of −log q_y.

    Also KerDEQ's "known KL" (eq. 13): KL(p, q) with p the one-hot vector of the label is −log q_y.
    """
    check(logits, labels)
    return float(functional.cross_entropy(logits.double(), labels))


def brier_score(logits: Logits, labels: Labels) -> float:
    """Mean of Σ_k (q_k − 1[k = y])², from 0 (certain and right) to 2 (certain and wrong).

    >>> brier_score(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    0.5
    """
    check(logits, labels)
    target = functional.one_hot(labels, logits.shape[1])
    return float((logits.double().softmax(1) - target).square().sum(1).mean())


def divergence_from_uniform(logits: Logits) -> Float[Tensor, " n"]:
    """KL(p, u) = Σ p_k log p_k + log K of the prediction p from the uniform u: 0 … log K.

    KerDEQ's "unknown KL" is its mean over images of unseen classes. The text makes q the uniform
    distribution in eq. 13, so p is the prediction; the published 1.51 and 1.21 lie below log 5 = 1.609, as
    this direction must and the other need not.

    >>> divergence_from_uniform(torch.tensor([[0.0, 0.0]])).item()
    0.0
    """
    logs = logits.double().log_softmax(1)
    return (torch.special.entr(logs.exp()).sum(1).neg() + math.log(logits.shape[1])).clamp_min(0)


def accuracy(logits: Logits, labels: Labels) -> float:
    """In %."""
    check(logits, labels)
    return 100 * float((logits.argmax(1) == labels).double().mean())


def summary(logits: Logits, labels: Labels, bins: int) -> dict[str, float | int]:
    """Every figure of the calibration on one set of labelled images."""
    reliability = Reliability.of(logits, labels, bins)
    return {
        "images": len(labels),
        "accuracy": accuracy(logits, labels),
        "confidence": 100 * float(logits.double().softmax(1).amax(1).mean()),
        "ece": reliability.expected_error,
        "mce": reliability.largest_error,
        "nll": negative_log_likelihood(logits, labels),
        "brier": brier_score(logits, labels),
    }
