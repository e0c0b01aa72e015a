"""Ctrl-C (and a cluster's request to stop): save, then end."""

# mypy: disable-error-code="override"
# Lightning hands every hook a LightningModule; here it is always a Task.

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from lightning.pytorch import Callback, Trainer

from geq.error import GeqError
from geq.training.callback.journal import Journal
from geq.training.task import Task


class TrainingInterrupted(GeqError):
    """The run was asked to stop, and can be resumed."""


class Interrupt(Callback):
    """Ends the run after the batch in which SIGINT or SIGTERM came; a second SIGINT ends it at once."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.requested = False
        self.before: dict[signal.Signals, Any] = {}

    def request(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True

    def on_train_start(self, trainer: Trainer, task: Task) -> None:
        if threading.current_thread() is threading.main_thread():
            self.before = {number: signal.signal(number, self.request) for number in self.SIGNALS}

    def teardown(self, trainer: Trainer, task: Task, stage: str) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        self.before = {}

    def on_train_batch_end(
        self, trainer: Trainer, task: Task, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # The last batch of an epoch is followed by its evaluation: stop after that.
        if task.position.batch < task.steps_per_epoch and self._everyone(trainer):
            self.journal.save(trainer, task)
            raise self._message(task)

    def on_train_epoch_end(self, trainer: Trainer, task: Task) -> None:
        if task.position.epoch < task.options.epochs and self._everyone(trainer):
            raise self._message(task)

    def _everyone(self, trainer: Trainer) -> bool:
        if trainer.world_size == 1:
            return self.requested
        # All processes must stop after the same batch: one that goes on would wait for the others for ever.
        return trainer.strategy.reduce_boolean_decision(self.requested, all=False)

    def _message(self, task: Task) -> TrainingInterrupted:
        epoch = f"epoch {task.position.epoch + 1} of {task.options.epochs}"
        where = f"stopped in {epoch}, after step {task.position.step}"
        folder = self.journal.folder
        how = f"; everything is saved. Continue with:\n  geq train --resume {folder.path}" if folder else ""
        return TrainingInterrupted(where + how)
