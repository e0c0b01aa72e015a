"""The training loop's one module: what a step computes, and from where in the data it goes on.

:class:`Task` is all that does not depend on what the network predicts; :class:`ClassificationTask` adds the
loss and the metrics of image classification, :mod:`geq.training.segmentation` those of labelled pixels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from lightning.pytorch import LightningModule
from torch import Tensor
from torch.nn import functional

from geq.data.dataset import Dataset
from geq.data.loader import BatchLoader
from geq.error import ConvergenceError
from geq.model.network import Network
from geq.training.average import WeightAverage
from geq.training.decay import parameter_groups
from geq.training.evaluation import ClassificationResult, EvaluationResult, evaluate
from geq.training.metric import ClassificationMeasures, Measures, SolverMeasures
from geq.training.option import OptimizerOptions, TrainOptions
from geq.training.position import Position
from geq.training.run import RunFolder


@dataclass(frozen=True)
class RestOfEpoch:
    """The batches of one epoch from a position on, with their number."""

    loader: BatchLoader
    position: Position

    def __len__(self) -> int:
        return len(self.loader) - self.position.batch

    def __iter__(self) -> Iterator[Any]:
        return self.loader.iterate(self.position.epoch, self.position.batch)


def build_optimizer(options: OptimizerOptions, model: torch.nn.Module) -> torch.optim.Optimizer:
    groups = parameter_groups(model, options.weight_decay, options.decay_all)
    if options.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=options.learning_rate)
    return torch.optim.SGD(
        groups, lr=options.learning_rate, momentum=options.momentum, nesterov=options.nesterov
    )


class Task(LightningModule):
    """A network, its data, and the position of the run.

    :attr:`headline` is the measure by which the best weights are chosen.

    Args:
        model: the network.
        options: of the run.
        training: batches of this process.
        position: where to go on.
        optimizer_state: of the run that is resumed.
    """

    headline: ClassVar[str]

    def __init__(
        self,
        model: Network,
        options: TrainOptions,
        training: BatchLoader,
        position: Position | None = None,
        optimizer_state: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.options = options
        self.training_batches = training
        self.position = position or Position()
        self.optimizer_state = optimizer_state
        self.average = WeightAverage(model, options.ema) if options.ema else None
        self.epoch_record: dict[str, float] = {}
        """What the callbacks have measured in this epoch so far; it becomes a line of the log."""
        self.train_measures = self.new_measures()
        self.evaluation_measures = self.new_measures()
        self.evaluation_solver = SolverMeasures()

    @abstractmethod
    def new_measures(self) -> Measures: ...

    @abstractmethod
    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor: ...

    @abstractmethod
    def evaluation_loss(self, outputs: Tensor, labels: Tensor) -> Tensor: ...

    @abstractmethod
    def measure(self, measures: Measures, loss: Tensor, outputs: Tensor, labels: Tensor) -> None: ...

    @abstractmethod
    def share_correct(self, outputs: Tensor, labels: Tensor) -> float: ...

    @classmethod
    @abstractmethod
    def evaluate(cls, model: Network, batches: BatchLoader, options: TrainOptions) -> EvaluationResult:
        """Measure a trained network; in this process alone, also where others run."""

    @classmethod
    @abstractmethod
    def draw(cls, folder: RunFolder, model: Network, test: Dataset) -> None:
        """Write the picture of a finished run."""

    def infer(self, images: Tensor) -> Tensor:
        """What the network says in evaluation; its equilibria are measured."""
        outputs = self.model(images)
        self.evaluation_solver.update(self.model, len(images))
        return outputs

    @property
    def steps_per_epoch(self) -> int:
        return len(self.training_batches)

    def train_dataloader(self) -> RestOfEpoch:
        return RestOfEpoch(self.training_batches, self.position)

    def training_step(self, batch: Any, index: int) -> dict[str, Tensor]:
        images, labels = batch
        outputs = self.model(images)
        loss = self.loss(outputs, labels)
        if not bool(torch.isfinite(loss)):
            raise ConvergenceError(
                f"the loss became {float(loss.detach())} in step {self.position.step + 1}: try a lower "
                "--learning_rate, a longer --warmup_epochs or a smaller --clip"
            )
        self.measure(self.train_measures, loss, outputs, labels)
        return {"loss": loss, "outputs": outputs.detach()}

    def validation_step(self, batch: Any, index: int) -> None:
        images, labels = batch
        outputs = self.infer(images)
        self.measure(self.evaluation_measures, self.evaluation_loss(outputs, labels), outputs, labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        optimizer = build_optimizer(self.options, self.model)
        if self.optimizer_state is not None:
            optimizer.load_state_dict(self.optimizer_state)
            self.optimizer_state = None
        return optimizer

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | int | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        if self.options.strategy == "fsdp":
            whole: Any = self.trainer.model
            # Each process has a part of the gradient; only the wrapper knows the norm of the whole.
            if gradient_clip_val:
                whole.clip_grad_norm_(gradient_clip_val)
            return
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)


class ClassificationTask(Task):
    """Cross-entropy with label smoothing; accuracy."""

    headline = "accuracy"

    def new_measures(self) -> ClassificationMeasures:
        return ClassificationMeasures(self.model.num_classes)

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, labels, label_smoothing=self.options.label_smoothing)

    def evaluation_loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, labels)

    def share_correct(self, outputs: Tensor, labels: Tensor) -> float:
        return float((outputs.argmax(1) == labels).float().mean())

    def measure(self, measures: Measures, loss: Tensor, outputs: Tensor, labels: Tensor) -> None:
        assert isinstance(measures, ClassificationMeasures)
        measures.update(loss, outputs, labels)

    @classmethod
    def evaluate(cls, model: Network, batches: BatchLoader, options: TrainOptions) -> ClassificationResult:
        return evaluate(model, batches)

    @classmethod
    def draw(cls, folder: RunFolder, model: Network, test: Dataset) -> None:
        from geq.training.picture import draw_run

        draw_run(folder, model, test)
