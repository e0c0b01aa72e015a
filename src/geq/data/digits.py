"""scikit-learn's digits: 1,797 images of 8×8, so there is always something to train on."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from geq.data.dataset import ImageDataset, Statistics
from geq.data.protocol import stratified
from geq.errors import MissingExtraError

TEST_SIZE = 360
DIGITS_STATISTICS = Statistics((0.3053,), (0.3759,))


def read_digits(split: Literal["train", "test"]) -> ImageDataset:
    """The set has no official split: 360 images, stratified and the same for everyone, are kept for testing.

    Values 0..16 become bytes 0..255.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtraError.naming("scikit-learn", "train", "the dataset 'digits'") from error
    content = load_digits()
    images = torch.from_numpy(np.round(content.images * (255 / 16)).astype(np.uint8))[:, None]
    labels = torch.from_numpy(content.target.astype(np.int64))
    whole = ImageDataset(images, labels, tuple("0123456789"), DIGITS_STATISTICS, name="digits", split=split)
    test, train = stratified(whole.labels, TEST_SIZE, seed=0)
    return whole.subset(test if split == "test" else train)
