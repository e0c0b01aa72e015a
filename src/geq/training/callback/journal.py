"""Writes the run: a checkpoint, the log and TensorBoard after each epoch, and checkpoints in between."""

# mypy: disable-error-code="override"
# Lightning hands every hook a LightningModule; here it is always a Task.

from __future__ import annotations

from typing import Any

import torch.distributed
from lightning.pytorch import Callback, Trainer

from geq.problem.norm import norm_memory
from geq.training.checkpoint import Checkpoint, random_state
from geq.training.run import RunFolder
from geq.training.task import Task


class Journal(Callback):
    """Last of the callbacks that measure: it saves what they found.

    Args:
        folder: where to write; None in processes that do not.
        history: the log so far.
        every: steps between checkpoints within an epoch; 0 for none.
    """

    def __init__(self, folder: RunFolder | None, history: list[dict[str, Any]], every: int) -> None:
        self.folder, self.history, self.every = folder, history, every
        self.writer: Any = None

    def on_train_start(self, trainer: Trainer, task: Task) -> None:
        if self.folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            # Lines after this step were written by a process that was killed: TensorBoard shall forget them.
            self.writer = SummaryWriter(str(self.folder.tensorboard), purge_step=task.position.step + 1)

    def on_train_batch_end(
        self, trainer: Trainer, task: Task, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        within_epoch = task.position.batch < task.steps_per_epoch
        if self.every and task.position.step % self.every == 0 and within_epoch:
            self.save(trainer, task)

    def on_train_epoch_end(self, trainer: Trainer, task: Task) -> None:
        record: dict[str, Any] = {"kind": "epoch", "epoch": task.position.epoch, "step": task.position.step}
        self.history.append(record | dict(sorted(task.epoch_record.items())))
        task.epoch_record = {}
        self.save(trainer, task)
        if self.folder is not None:
            self.folder.write_log(self.history)
            for name, value in self.history[-1].items():
                if isinstance(value, float):
                    self.writer.add_scalar(name.replace("_", "/", 1), value, task.position.step)
            self.writer.flush()

    def teardown(self, trainer: Trainer, task: Task, stage: str) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def save(self, trainer: Trainer, task: Task) -> None:
        """Write the checkpoint; every process takes part, for weights that are divided among them."""
        model = {
            name.removeprefix("model."): value
            for name, value in trainer.strategy.lightning_module_state_dict().items()
            if name.startswith("model.")
        }
        optimizer = trainer.strategy.optimizer_state(trainer.optimizers[0])
        own = {
            "measures": dict(task.train_measures.state_dict()),
            "callbacks": self._callback_states(trainer),
            "random": random_state(),
        }
        everyone: list[dict[str, Any]] = [own]
        if trainer.world_size > 1:
            everyone = [own] * trainer.world_size
            torch.distributed.all_gather_object(everyone, own)
        if self.folder is None:
            return
        Checkpoint(
            position=task.position.as_mapping(),
            model=model,
            norms=norm_memory(task.model),
            optimizer=optimizer,
            scaler=trainer.precision_plugin.state_dict(),
            average=None if task.average is None else task.average.state_dict(),
            history=self.history,
            others=everyone[1:],
            **own,
        ).save(self.folder.checkpoint)

    @staticmethod
    def _callback_states(trainer: Trainer) -> dict[str, dict[str, Any]]:
        states = {type(callback).__name__: callback.state_dict() for callback in trainer.callbacks}  # type: ignore[attr-defined]
        return {name: state for name, state in states.items() if state}
