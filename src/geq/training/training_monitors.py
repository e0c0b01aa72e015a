"""Measurements during training, continued by a resumed run: gradient, solver, attention, best epoch.

Each has ``state_dict`` and ``load_state_dict``, by which a checkpoint holds it.
"""

from __future__ import annotations

import logging
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torchmetrics import MaxMetric, MeanMetric

from geq.bandwidth import GammaRule, LearnedGamma
from geq.model.network import Network
from geq.training.equilibrium_probe import probe, probe_with_batch_statistics, summarise
from geq.training.metrics import Measures, SolverMeasures

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


def collapse_advice(model: Network, decays: bool) -> str:
    """Return what to try against a collapse that this run does not do already."""
    rules = [module for module in model.modules() if isinstance(module, GammaRule)]
    learned = all(isinstance(rule, LearnedGamma) for rule in rules)
    advice = [
        "" if learned else "a learned γ (--model.gamma learned)",
        "no weight decay on W_h (--decay_all false)" if decays else "",
        "a lower --learning_rate" if learned and not decays else "",
    ]
    return "the Gaussian may be collapsing, so that all patches are weighted alike. Try " + ", and ".join(
        filter(None, advice)
    )


SOLVER_ADVICE = (
    "try a lower --learning_rate or a longer warm-up; a tighter bound of the feedback "
    "(--model.bound 0.8); more solver steps (--model.max_steps 100)"
)


class GradientNorm:
    """Mean and maximum of the norm of the gradient over the steps of an epoch, before it is clipped."""

    def __init__(self) -> None:
        self.measures = Measures({"norm": MeanMetric(), "norm_max": MaxMetric()})

    def update(self, model: nn.Module) -> None:
        norm = get_total_norm(p.grad for p in model.parameters() if p.grad is not None)
        # Under a loss scale, a step whose gradient overflowed is skipped; it has no norm to speak of.
        if bool(norm.isfinite()):
            for metric in self.measures.members().values():
                metric.update(norm)

    def finish_epoch(self) -> dict[str, float]:
        return self.measures.finish("gradient")

    def state_dict(self) -> dict[str, Any]:
        return {"measures": dict(self.measures.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.measures.load_state_dict(state["measures"])


class SolverStatistics:
    """Evaluations of the map (mean), worst residual, and the share of samples that missed the tolerance.

    Args:
        threshold: the share above which an epoch is warned of; again only after it has doubled.
    """

    def __init__(self, threshold: float) -> None:
        self.threshold = self.next_warning = threshold
        self.measures = SolverMeasures()

    def finish_epoch(self, epoch: int, model: Network, first: bool) -> dict[str, float]:
        values = self.measures.finish("solver")
        share = values.get("solver_unconverged", 0.0)
        if share > self.next_warning and not unrolled(model):
            self.next_warning = 2 * share
            if first:
                log.warning(
                    "epoch %d: %.1f %% of the samples missed the tolerance (worst residual %.2g); %s",
                    epoch,
                    100 * share,
                    values["solver_residual"],
                    SOLVER_ADVICE,
                )
        return values

    def state_dict(self) -> dict[str, Any]:
        return {"next_warning": self.next_warning, "measures": dict(self.measures.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.next_warning = state["next_warning"]
        self.measures.load_state_dict(state["measures"])


def unrolled(model: Network) -> bool:
    """Return whether the network is a number of iterations, wherever these end."""
    return all(layer.gradient.iterations is not None for layer in model.equilibria().values())


class AttentionStatistics:
    """β, γ, energy and feedback on the same few images after each evaluation, and a warning if they run away.

    Args:
        images: a fixed batch, normalised.
        decays: whether W_h is under weight decay.
    """

    def __init__(self, images: Float[Tensor, "b c h w"], decays: bool = False) -> None:
        self.images, self.decays = images, decays
        self.first: dict[str, float] = {}
        self.warned: set[str] = set()

    def begin(self, model: Network) -> None:
        if not self.first:
            self.first = summarise(probe_with_batch_statistics(model, self.images))

    def look(self, model: Network, epoch: int) -> dict[str, float]:
        self.watch(model, epoch)
        return summarise(probe(model, self.images))

    def watch(self, model: Network, epoch: int) -> None:
        """Warn once of each kind of number that it has run away, and in which branch."""
        if self.warned >= set(LIMITS):
            return
        found = summarise(probe_with_batch_statistics(model, self.images))
        for name, value in found.items():
            kind, _, branch = name.partition("/")
            first = self.first.get(name, 0.0)
            if kind not in LIMITS or kind in self.warned or first <= 0:
                continue
            low, high, said = LIMITS[kind]
            ratio = value / first
            if not low <= ratio <= high:
                self.warned.add(kind)
                advice = collapse_advice(model, self.decays)
                log.warning("epoch %d, %s: %s; %s", epoch, branch, said.format(ratio=ratio), advice)

    def state_dict(self) -> dict[str, Any]:
        return {"first": self.first, "warned": sorted(self.warned)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.first = dict(state["first"])
        self.warned = set(state["warned"])


class EarlyStop:
    """The best evaluation so far; the run is exhausted ``patience`` epochs after it."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.best, self.best_epoch = -1.0, 0

    def improved(self, reached: float, epoch: int) -> bool:
        if reached <= self.best:
            return False
        self.best, self.best_epoch = reached, epoch
        return True

    def exhausted(self, epoch: int) -> bool:
        return epoch - self.best_epoch >= self.patience

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_epoch": self.best_epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.best_epoch = state["best"], state["best_epoch"]
