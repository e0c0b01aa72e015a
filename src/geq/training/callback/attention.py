"""β, γ and the energy on the same few images after each evaluation."""

# mypy: disable-error-code="override"
# Lightning hands every hook a LightningModule; here it is always a Task.

from __future__ import annotations

from jaxtyping import Float
from lightning.pytorch import Callback, Trainer
from torch import Tensor

from geq.training.probe import probe, summarise
from geq.training.task import Task


class AttentionStatistics(Callback):
    """
    Args:
        images: a fixed batch, normalised.
    """

    def __init__(self, images: Float[Tensor, "b c h w"]) -> None:
        self.images = images

    def on_validation_epoch_end(self, trainer: Trainer, task: Task) -> None:
        if trainer.is_global_zero:
            task.epoch_record |= summarise(probe(task.model, self.images))
