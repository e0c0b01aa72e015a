"""Measures a trained network on a dataset."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.nn import functional

from geq.data.loader import BatchLoader
from geq.error import InputError
from geq.model.network import Network
from geq.training.metric import ClassificationMeasures, SolverMeasures
from geq.training.tolerance import measured_failures


@dataclass(frozen=True)
class EvaluationResult:
    """
    Args:
        images: number of images.
        accuracy, top5: in %; top5 where there are more than ten classes.
        loss: mean cross-entropy.
        steps, residual, unconverged: mean evaluations of the maps, worst residual, share of samples that
            missed the tolerance; None for a network without equilibria.
    """

    images: int
    accuracy: float
    loss: float
    top5: float | None = None
    steps: float | None = None
    residual: float | None = None
    unconverged: float | None = None

    def as_mapping(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@torch.no_grad()
def evaluate(model: Network, batches: BatchLoader) -> EvaluationResult:
    """Accuracy, loss and solver statistics; in this process alone, also where others run."""
    if len(batches.dataset.classes) > model.num_classes:
        raise InputError(
            f"the network knows {model.num_classes} classes; {batches.dataset.name} has "
            f"{len(batches.dataset.classes)}: choose the data that it was trained on"
        )
    like = next(model.parameters())
    device = like.device
    measures = ClassificationMeasures(model.num_classes, shared=False).to(device)
    solver = SolverMeasures(shared=False).to(device)
    was_training = model.training
    model.eval()
    try:
        with measured_failures(model):
            for images, labels in batches:
                labels = labels.to(device)
                logits = model(images.to(like))
                measures.update(functional.cross_entropy(logits, labels), logits, labels)
                solver.update(model, len(labels))
    finally:
        model.train(was_training)
    return EvaluationResult(images=len(batches.dataset), **measures.compute(), **solver.compute())
