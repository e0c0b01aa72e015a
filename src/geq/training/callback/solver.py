"""How the equilibria were solved while training, and a word when that goes wrong."""

# mypy: disable-error-code="override"
# Lightning hands every hook a LightningModule; here it is always a Task.

from __future__ import annotations

import logging
from typing import Any

from lightning.pytorch import Callback, Trainer

from geq.gradient import Unrolled
from geq.model.network import Network
from geq.training.metric import SolverMeasures
from geq.training.task import Task

log = logging.getLogger("geq.training")

ADVICE = (
    "what to try: a lower --learning_rate or a longer warm-up; a tighter bound of the feedback "
    "(--override bound=0.8); more solver steps (--override max_steps=100)"
)


def unrolled(model: Network) -> bool:
    """Whether the network is a number of iterations, wherever these end."""
    return all(isinstance(layer.gradient, Unrolled) for layer in model.equilibria().values())


class SolverStatistics(Callback):
    """Evaluations of the map (mean), worst residual, and the share of samples that missed the tolerance.

    Args:
        threshold: the share above which an epoch is warned of; again only after it has doubled.
    """

    def __init__(self, threshold: float) -> None:
        self.threshold = self.next_warning = threshold
        self.measures = SolverMeasures()

    def on_fit_start(self, trainer: Trainer, task: Task) -> None:
        self.measures.to(task.device)

    def on_train_batch_end(
        self, trainer: Trainer, task: Task, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.measures.update(task.model, len(batch[0]))

    def on_train_epoch_end(self, trainer: Trainer, task: Task) -> None:
        values = self.measures.compute()
        self.measures.reset()
        task.epoch_record |= {f"solver_{name}": value for name, value in values.items()}
        share = values.get("unconverged", 0.0)
        if share > self.next_warning and not unrolled(task.model):
            self.next_warning = 2 * share
            if trainer.is_global_zero:
                log.warning(
                    "epoch %d: %.1f %% of the samples missed the tolerance (worst residual %.2g); %s",
                    task.position.epoch,
                    100 * share,
                    values["residual"],
                    ADVICE,
                )

    def state_dict(self) -> dict[str, Any]:
        return {"next_warning": self.next_warning, "measures": dict(self.measures.state_dict())}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.next_warning = state_dict["next_warning"]
        self.measures.load_state_dict(state_dict["measures"])
