"""β, γ, the energy and the feedback on the same few images after each evaluation, and a word if they run
away."""

# mypy: disable-error-code="override"
# Lightning hands every hook a LightningModule; here it is always a Task.

from __future__ import annotations

import logging
from typing import Any

from jaxtyping import Float
from lightning.pytorch import Callback, Trainer
from torch import Tensor

from geq.training.probe import probe, probe_untrained, summarise
from geq.training.task import Task

log = logging.getLogger("geq.training")

LIMITS: dict[str, tuple[float, float, str]] = {
    "gamma": (0.0, 25.0, "γ has grown {ratio:.3g}-fold"),
    "distance": (
        0.05,
        float("inf"),
        "the distances q of the patches have shrunk to {ratio:.2g} of what they were",
    ),
    "rank": (0.35, float("inf"), "the rank of W_h has fallen to {ratio:.2g} of what it was"),
}
"""Kind of number -> the ratios to its first value between which nothing is said, and what is said beyond.

A γ that follows the smallest distance passes them in time (``geq reproduce study-collapse``).
The networks that come with geq, trained to the end, stay between them (tests/weights).
"""
ADVICE = (
    "the Gaussian is collapsing: no patch is told from another any more. What to try: a learned γ "
    "(--override gamma=learned), and no weight decay on W_h (--decay_all false)"
)


class AttentionStatistics(Callback):
    """
    Args:
        images: a fixed batch, normalised.
    """

    def __init__(self, images: Float[Tensor, "b c h w"]) -> None:
        self.images = images
        self.first: dict[str, float] = {}
        self.warned: set[str] = set()

    def on_fit_start(self, trainer: Trainer, task: Task) -> None:
        if trainer.is_global_zero and not self.first:
            self.first = summarise(probe_untrained(task.model, self.images))

    def on_validation_epoch_end(self, trainer: Trainer, task: Task) -> None:
        if trainer.is_global_zero:
            found = summarise(probe(task.model, self.images))
            task.epoch_record |= found
            if not trainer.sanity_checking:
                self.watch(found, task.position.epoch)

    def watch(self, found: dict[str, float], epoch: int) -> None:
        """Say once of each kind of number that it has run away, and in which branch."""
        for name, value in found.items():
            kind, _, branch = name.partition("/")
            first = self.first.get(name, 0.0)
            if kind not in LIMITS or kind in self.warned or first <= 0:
                continue
            low, high, said = LIMITS[kind]
            ratio = value / first
            if not low <= ratio <= high:
                self.warned.add(kind)
                log.warning("epoch %d, %s: %s; %s", epoch, branch, said.format(ratio=ratio), ADVICE)

    def state_dict(self) -> dict[str, Any]:
        return {"first": self.first, "warned": sorted(self.warned)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.first = dict(state_dict["first"])
        self.warned = set(state_dict["warned"])
