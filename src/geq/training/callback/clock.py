"""Sets the learning rate of each step and counts what is done."""

# mypy: disable-error-code="override"
# Lightning hands every hook a LightningModule; here it is always a Task.

from __future__ import annotations

import time
from typing import Any

from lightning.pytorch import Callback, Trainer

from geq.training.schedule import learning_rate_factor
from geq.training.task import Task


class Clock(Callback):
    """First among the callbacks: the others see the position after the batch or epoch that has ended."""

    def __init__(self) -> None:
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def on_train_epoch_start(self, trainer: Trainer, task: Task) -> None:
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def on_train_batch_start(self, trainer: Trainer, task: Task, batch: Any, batch_idx: int) -> None:
        factor = learning_rate_factor(task.options, task.position.step, task.steps_per_epoch)
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = task.options.learning_rate * factor

    def on_train_batch_end(
        self, trainer: Trainer, task: Task, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        task.position = task.position.after_batch()

    def on_train_epoch_end(self, trainer: Trainer, task: Task) -> None:
        task.position = task.position.after_epoch()
        task.epoch_record |= {
            "learning_rate": trainer.optimizers[0].param_groups[0]["lr"],
            "seconds": time.perf_counter() - self.wall,
            "cpu_seconds": time.process_time() - self.processor,
        }
