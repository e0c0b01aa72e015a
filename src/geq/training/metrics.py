"""Measures of a classifier and of its solver, over batches and processes.

torchmetrics keeps the sums, adds them up over processes, and gives them to checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torchmetrics import MaxMetric, MeanMetric, Metric
from torchmetrics.classification import MulticlassAccuracy

from geq.model.network import Network


class Measures(nn.Module):
    """Named metrics that are saved with their sums."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        super().__init__()
        for metric in metrics.values():
            metric.persistent(True)
        self.metrics = nn.ModuleDict(metrics)

    def reset(self) -> None:
        for metric in self.members().values():
            metric.reset()

    def members(self) -> dict[str, Metric]:
        return {name: metric for name, metric in self.metrics.items() if isinstance(metric, Metric)}

    def compute(self) -> dict[str, float]:
        """The value of each metric that has seen something."""
        return {
            name: float(metric.compute()) for name, metric in self.members().items() if metric.update_called
        }

    def finish(self, prefix: str) -> dict[str, float]:
        """Return the values, named with ``prefix``, and begin again."""
        values = {f"{prefix}_{name}": value for name, value in self.compute().items()}
        self.reset()
        return values

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        result = super().load_state_dict(state_dict, strict, assign)
        for metric in self.members().values():
            metric._update_count = 1  # what it holds came from updates of the interrupted process
        return result


class TaskMeasures(Measures):
    """Measures of a network's outputs."""

    def update(self, loss: Tensor, outputs: Tensor, labels: Tensor) -> None:
        raise NotImplementedError


class ClassificationMeasures(TaskMeasures):
    """Loss and accuracy in %, and top-5 accuracy where there are more than ten classes.

    Args:
        num_classes: number of classes.
        shared: whether the processes of a run measure together, or this one by itself.
    """

    def __init__(self, num_classes: int, shared: bool = True) -> None:
        def accuracy(top_k: int) -> Metric:
            return MulticlassAccuracy(
                num_classes, top_k=top_k, average="micro", validate_args=False, sync_on_compute=shared
            )

        metrics: dict[str, Metric] = {"loss": MeanMetric(sync_on_compute=shared), "accuracy": accuracy(1)}
        if num_classes > 10:
            metrics["top5"] = accuracy(5)
        super().__init__(metrics)

    def update(self, loss: Tensor, outputs: Float[Tensor, "b classes"], labels: Int64[Tensor, " b"]) -> None:
        for name, metric in self.members().items():
            if name == "loss":
                metric.update(loss.detach(), weight=float(len(labels)))
            else:
                metric.update(outputs.detach(), labels)

    def compute(self) -> dict[str, float]:
        return {name: value * (1 if name == "loss" else 100) for name, value in super().compute().items()}


class SolverMeasures(Measures):
    """Measures of the solves: evaluations, worst residual, share of samples that did not converge."""

    def __init__(self, shared: bool = True) -> None:
        super().__init__(
            {
                "steps": MeanMetric(sync_on_compute=shared),
                "residual": MaxMetric(sync_on_compute=shared),
                "unconverged": MeanMetric(sync_on_compute=shared),
            }
        )

    def update(self, model: Network, batch_size: int) -> None:
        for report in model.solutions().values():
            members = self.members()
            members["steps"].update(torch.tensor(report.steps_mean), weight=float(batch_size))
            # Infinity would make the log unreadable as JSON: the largest float stands for it.
            members["residual"].update(torch.tensor(min(report.residual_max, torch.finfo(torch.float32).max)))
            members["unconverged"].update(torch.tensor(1 - report.converged), weight=float(batch_size))
