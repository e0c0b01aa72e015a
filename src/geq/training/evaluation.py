"""Measures a trained network on a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch.nn import functional

from geq.data.dataset import Dataset
from geq.data.loader import BatchLoader
from geq.equilibrium import ignore_failures
from geq.errors import InputError
from geq.frozen import frozen
from geq.model.network import Network
from geq.training.confusion import Confusion
from geq.training.metrics import ClassificationMeasures, SolverMeasures


@dataclass(frozen=True, kw_only=True)
class EvaluationResult:
    """Measures of every task.

    Args:
        images: number of images.
        loss: mean loss: the cross-entropy, or the absolute error of a restored image.
        confusion: how many of class t (row) were given class p (column): images, or pixels of masks;
            empty where nothing is classified.
        steps, residual, unconverged: mean evaluations of the maps, worst residual, share of samples that
            missed the tolerance; None for a network without equilibria.
    """

    images: int
    loss: float
    confusion: list[list[int]] = field(repr=False)
    steps: float | None = None
    residual: float | None = None
    unconverged: float | None = None

    def as_mapping(self) -> dict[str, Any]:
        """Return the figures, as a log holds them; the matrix has too many numbers for that."""
        return {k: value for k, value in asdict(self).items() if value is not None and k != "confusion"}


@dataclass(frozen=True, kw_only=True)
class ClassificationResult(EvaluationResult):
    """
    Args:
        accuracy, top5: in %; top5 where there are more than ten classes.
    """

    accuracy: float
    top5: float | None = None


@contextmanager
def evaluating(model: Network, dataset: Dataset) -> Iterator[None]:
    """Inside, ``model`` only looks: without gradients, and what does not converge is measured."""
    if len(dataset.classes) > model.num_classes:
        raise InputError(
            f"the network has {model.num_classes} classes; {dataset.name} has {len(dataset.classes)}: "
            "choose the data that it was trained on"
        )
    with frozen(model), torch.no_grad(), ignore_failures(model):
        yield


def evaluate(model: Network, batches: BatchLoader) -> ClassificationResult:
    """Accuracy, loss and solver statistics; in this process alone, also where others run."""
    like = next(model.parameters())
    measures = ClassificationMeasures(model.num_classes, shared=False).to(like.device)
    confusion = Confusion(model.num_classes, sync_on_compute=False).to(like.device)
    solver = SolverMeasures(shared=False).to(like.device)
    with evaluating(model, batches.dataset):
        for images, labels in batches:
            labels = labels.to(like.device)
            logits = model(images.to(like))
            measures.update(functional.cross_entropy(logits, labels), logits, labels)
            confusion.update(logits.argmax(1), labels)
            solver.update(model, len(labels))
    return ClassificationResult(
        images=len(batches.dataset),
        confusion=confusion.compute().tolist(),
        **measures.compute(),
        **solver.compute(),
    )
