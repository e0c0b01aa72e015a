"""Training task of a run: its loss and its measures.

:class:`Task` is all that does not depend on what the network predicts; :class:`ClassificationTask` adds the
loss and the metrics of image classification, :mod:`geq.training.segmentation_task` those of labelled pixels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from torch import Tensor
from torch.nn import functional

from geq.data.dataset import Dataset
from geq.data.loader import BatchLoader
from geq.model.network import Network
from geq.training.evaluation import ClassificationResult, EvaluationResult, evaluate
from geq.training.metrics import ClassificationMeasures, SolverMeasures, TaskMeasures
from geq.training.run_folder import RunFolder
from geq.training.train_options import TrainOptions


class Task(ABC):
    """A network and what it is trained for.

    :attr:`headline` is the measure by which the best weights are chosen.

    Args:
        model: the network.
        options: of the run.
    """

    headline: ClassVar[str]

    def __init__(self, model: Network, options: TrainOptions) -> None:
        self.model, self.options = model, options

    @abstractmethod
    def new_measures(self) -> TaskMeasures: ...

    @abstractmethod
    def loss(self, outputs: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor: ...

    @abstractmethod
    def share_correct(self, outputs: Tensor, labels: Tensor) -> float: ...

    @abstractmethod
    def evaluate(self, batches: BatchLoader) -> EvaluationResult:
        """Measure the trained network; in this process alone, also where others run."""

    @abstractmethod
    def draw(self, folder: RunFolder, test: Dataset) -> None:
        """Write the picture of a finished run."""

    def infer(self, images: Tensor, seen: Callable[[], None]) -> Tensor:
        """Return the outputs in evaluation; ``seen`` is called after each pass."""
        outputs = self.model(images)
        seen()
        return outputs

    def measure(self, images: Tensor, labels: Tensor, measures: TaskMeasures, solver: SolverMeasures) -> None:
        """Add one batch of an evaluation to the measures."""
        outputs = self.infer(images, lambda: solver.update(self.model, len(images)))
        measures.update(self.loss(outputs, labels), outputs, labels)


class ClassificationTask(Task):
    """Cross-entropy with label smoothing; accuracy."""

    headline = "accuracy"

    def new_measures(self) -> ClassificationMeasures:
        return ClassificationMeasures(self.model.num_classes)

    def loss(self, outputs: Tensor, labels: Tensor, label_smoothing: float = 0.0) -> Tensor:
        return functional.cross_entropy(outputs, labels, label_smoothing=label_smoothing)

    def share_correct(self, outputs: Tensor, labels: Tensor) -> float:
        return float((outputs.argmax(1) == labels).float().mean())

    def evaluate(self, batches: BatchLoader) -> ClassificationResult:
        return evaluate(self.model, batches)

    def draw(self, folder: RunFolder, test: Dataset) -> None:
        from geq.training.run_picture import draw_run

        draw_run(folder, self.model, test)
