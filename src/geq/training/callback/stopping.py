"""Ends a run that no longer improves, and keeps its best weights."""

# mypy: disable-error-code="override"
# Lightning hands every hook a LightningModule; here it is always a Task.

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, Trainer

from geq.training.run import RunFolder
from geq.training.task import Task


class EarlyStop(Callback):
    """Saves the network when the task's headline on the validation images is better than ever; stops after
    ``patience`` epochs without that.

    Args:
        patience: epochs to wait.
        folder: where the best network goes; None in processes that do not write.
    """

    def __init__(self, patience: int, folder: RunFolder | None) -> None:
        self.patience, self.folder = patience, folder
        self.best, self.best_epoch = -1.0, 0

    def exhausted(self, epoch: int) -> bool:
        return epoch - self.best_epoch >= self.patience

    def on_validation_epoch_end(self, trainer: Trainer, task: Task) -> None:
        reached = task.epoch_record[f"validation_{task.headline}"]
        if reached > self.best:
            # The epoch that is measured is not counted as finished yet.
            self.best, self.best_epoch = reached, task.position.epoch + 1
            if self.folder is not None:
                task.model.save_pretrained(self.folder.model)

    def on_train_epoch_end(self, trainer: Trainer, task: Task) -> None:
        if self.exhausted(task.position.epoch):
            trainer.should_stop = True

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_epoch": self.best_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.best_epoch = state_dict["best"], state_dict["best_epoch"]
