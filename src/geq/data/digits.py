"""scikit-learn's digits: 1,797 images of 8×8, so there is always something to train on."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from geq.data.dataset import ImageDataset, Statistics
from geq.data.splits import stratified
from geq.errors import MissingExtraError

TEST_SIZE = 360
DIGITS_STATISTICS = Statistics((0.3053,), (0.3759,))


def read_digits(split: Literal["train", "test"]) -> ImageDataset:
    """The set has no official split: 360 images, stratified and the same for everyone, are kept for testing.

    Values 0..16 become bytes 0..255.
    """
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise MissingExtraError.naming("scikit-learn", "train", "the dataset 'digits'")
    # What load_digits() reads; importing scikit-learn for it takes a second.
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    content = np.loadtxt(file, delimiter=",", dtype=np.uint8)
    pixels = content[:, :-1].reshape(-1, 1, 8, 8)
    images = torch.from_numpy(np.round(pixels * (255 / 16)).astype(np.uint8))
    labels = torch.from_numpy(content[:, -1].astype(np.int64))
    whole = ImageDataset(images, labels, tuple("0123456789"), DIGITS_STATISTICS, name="digits", split=split)
    test, train = stratified(whole.labels, TEST_SIZE, seed=0)
    return whole.subset(test if split == "test" else train)
