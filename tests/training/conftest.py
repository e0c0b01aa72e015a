"""Runs that are small enough to be made for real in every test."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from geq.training.loop import Loop
from geq.training.train_options import TrainOptions

Act = Callable[[int], object]
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


@pytest.fixture
def around_step(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Call something in the loop ``before`` a step, or ``after`` it, with the number of steps so far."""

    def install(
        before: Callable[[int], Any] | None = None, after: Callable[[int], Any] | None = None
    ) -> None:
        step = Loop.step

        def disturbed(loop: Loop, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
            if before is not None:
                before(loop.position.step)
            result = step(loop, images, labels)
            if after is not None:
                after(loop.position.step)
            return result

        monkeypatch.setattr(Loop, "step", disturbed)

    return install


@pytest.fixture
def interrupt_at(around_step: Callable[..., None]) -> Callable[[set[int]], None]:
    """Send this process a real SIGINT in each of the given steps."""

    def install(steps: set[int]) -> None:
        def interrupt(step: int) -> None:
            if step in steps:
                steps.discard(step)
                signal.raise_signal(signal.SIGINT)

        around_step(after=interrupt)

    return install
