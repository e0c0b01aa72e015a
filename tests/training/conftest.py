"""Runs that are small enough to be made for real in every test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from geq.training.option import TrainOptions

SMALL: dict[str, Any] = {
    "model": "dnn_tiny",
    "train_size": 96,
    "batch_size": 32,
    "epochs": 2,
    "learning_rate": 0.05,
    "picture": False,
    "threads": 1,
}


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., TrainOptions]:
    """Options of a run of three steps an epoch, below a folder of the test."""
    return lambda **changes: TrainOptions(**{**SMALL, "runs": str(tmp_path / "runs"), **changes})
