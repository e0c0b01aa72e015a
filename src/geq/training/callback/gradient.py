"""The norm of the gradient, before it is clipped."""

# mypy: disable-error-code="override"
# Lightning hands every hook a LightningModule; here it is always a Task.

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, Trainer
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer
from torchmetrics import MaxMetric, MeanMetric

from geq.training.metric import Measures
from geq.training.task import Task


class GradientNorm(Callback):
    """Mean and maximum over the steps of an epoch."""

    def __init__(self) -> None:
        self.measures = Measures({"norm": MeanMetric(), "norm_max": MaxMetric()})

    def on_fit_start(self, trainer: Trainer, task: Task) -> None:
        self.measures.to(task.device)

    def on_before_optimizer_step(self, trainer: Trainer, task: Task, optimizer: Optimizer) -> None:
        norm = get_total_norm(p.grad for p in task.model.parameters() if p.grad is not None)
        # Under a loss scale, a step whose gradient overflowed is skipped; it has no norm to speak of.
        if bool(norm.isfinite()):
            for metric in self.measures.members().values():
                metric.update(norm)

    def on_train_epoch_end(self, trainer: Trainer, task: Task) -> None:
        task.epoch_record |= {f"gradient_{name}": value for name, value in self.measures.compute().items()}
        self.measures.reset()

    def state_dict(self) -> dict[str, Any]:
        return {"measures": dict(self.measures.state_dict())}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.measures.load_state_dict(state_dict["measures"])
