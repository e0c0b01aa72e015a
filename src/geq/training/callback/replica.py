"""Keeps what several processes measure by themselves the same in all of them."""

# mypy: disable-error-code="override"
# Lightning hands every hook a LightningModule; here it is always a Task.

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import Callback, Trainer

from geq.problem.gamma import RunningScale
from geq.training.task import Task


class SharedScales(Callback):
    """Averages the running γ scales over processes after each step.

    A scale is linear in what its batch contributes, so the average of the updated scales is the scale updated
    with the whole batch. (Within a step each process still uses its own share: a difference of a few per cent
    of one batch's deviation.)
    """

    def on_train_batch_end(
        self, trainer: Trainer, task: Task, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.world_size == 1:
            return
        rules = [module for module in task.model.modules() if isinstance(module, RunningScale)]
        if rules:
            mean = trainer.strategy.reduce(torch.stack([rule.scale for rule in rules]), reduce_op="mean")
            for rule, scale in zip(rules, mean, strict=True):
                rule.scale = scale.clone()
