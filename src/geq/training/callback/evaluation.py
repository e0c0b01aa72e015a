"""Turns what was measured on the held-out images into numbers of the epoch's record."""

# mypy: disable-error-code="override"
# Lightning hands every hook a LightningModule; here it is always a Task.

from __future__ import annotations

from contextlib import ExitStack

from lightning.pytorch import Callback, Trainer

from geq.training.task import Task
from geq.training.tolerance import measured_failures


class Evaluation(Callback):
    """
    Args:
        name: what the images are called in the log: 'validation' or 'test'.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.open = ExitStack()

    def on_validation_start(self, trainer: Trainer, task: Task) -> None:
        self.open.enter_context(measured_failures(task.model))

    def on_validation_epoch_end(self, trainer: Trainer, task: Task) -> None:
        measured = {**task.evaluation_measures.compute(), **task.evaluation_solver.compute()}
        task.evaluation_measures.reset()
        task.evaluation_solver.reset()
        task.epoch_record |= {f"{self.name}_{name}": value for name, value in measured.items()}

    def on_validation_end(self, trainer: Trainer, task: Task) -> None:
        self.open.close()

    def on_train_epoch_end(self, trainer: Trainer, task: Task) -> None:
        task.epoch_record |= {f"train_{name}": value for name, value in task.train_measures.compute().items()}
        task.train_measures.reset()
