"""Keeps the moving average of the weights up to date, and evaluates with it."""

# mypy: disable-error-code="override"
# Lightning hands every hook a LightningModule; here it is always a Task.

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, Trainer

from geq.training.average import WeightAverage
from geq.training.task import Task


class Averaging(Callback):
    def __init__(self, average: WeightAverage) -> None:
        self.average = average

    def on_fit_start(self, trainer: Trainer, task: Task) -> None:
        self.average.follow(task.model)

    def on_train_batch_end(
        self, trainer: Trainer, task: Task, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.average.update(task.model)

    def on_validation_start(self, trainer: Trainer, task: Task) -> None:
        self.average.swap(task.model)

    def on_validation_end(self, trainer: Trainer, task: Task) -> None:
        self.average.swap(task.model)
