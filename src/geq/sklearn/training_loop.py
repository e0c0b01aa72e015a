"""The training loop: skorch's, with weighted rows taken a batch at a time."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from skorch import NeuralNet
from skorch.callbacks import EarlyStopping, LRScheduler
from skorch.dataset import ValidSplit
from skorch.utils import noop
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import Dataset

from geq.sklearn.network import EstimatorNetwork

PREDICTION_BATCH = 512


class Rows(Dataset[Any]):
    """Tensors of equal length, indexed by whole batches: collating rows one by one costs more than a step."""

    def __init__(self, x: Tensor, target: Tensor, weight: Tensor) -> None:
        self.x, self.target, self.weight = x, target, weight

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        return self.x[index], (self.target[index], self.weight[index])

    def __getitems__(self, indices: Sequence[Any]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        rows = torch.as_tensor(indices)
        return self.x[rows], (self.target[rows], self.weight[rows])


def same(batch: Any) -> Any:
    """The collation of what is a batch already."""
    return batch


class WeightedLoss(nn.Module):
    """Mean of weight·loss over the rows of a batch; weights are 1 on average over the whole data.

    Args:
        classify: cross-entropy of logits instead of squared error.
    """

    def __init__(self, classify: bool) -> None:
        super().__init__()
        self.classify = classify

    def forward(self, output: Tensor, truth: Sequence[Tensor]) -> Tensor:
        target, weight = truth
        if self.classify:
            losses = F.cross_entropy(output, target, reduction="none")
        else:
            losses = (output - target).square().mean(1)
        return (weight * losses).mean()


def decoupled_adam(groups: list[dict[str, Any]], lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """AdamW in which only matrices and kernels decay: decay of γ, of a bias or of a norm's gain pulls towards
    a value of no meaning.
    """
    parameters = [parameter for group in groups for parameter in group["params"]]
    decaying: dict[str, Any] = {"params": [p for p in parameters if p.ndim > 1]}
    others: dict[str, Any] = {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0}
    return torch.optim.AdamW([decaying, others], lr=lr, weight_decay=weight_decay, fused=True)


def print_plainly(text: str) -> None:
    """Print a line, with skorch's colours on a terminal only."""
    print(text if sys.stdout.isatty() else re.sub(r"\x1b\[\d+m", "", text))


def training_net(
    network: EstimatorNetwork,
    *,
    classify: bool,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    weight_decay: float,
    callbacks: list[Any],
    train_split: ValidSplit | None,
    device: str,
    verbose: int,
) -> NeuralNet:
    """skorch's net around ``network``, ready for ``partial_fit``."""
    net = NeuralNet(
        network,
        WeightedLoss(classify),
        optimizer=decoupled_adam,
        optimizer__weight_decay=weight_decay,
        lr=learning_rate,
        max_epochs=epochs,
        batch_size=batch_size,
        iterator_train__shuffle=True,
        iterator_train__collate_fn=same,
        iterator_valid__batch_size=PREDICTION_BATCH,
        iterator_valid__collate_fn=same,
        callbacks=callbacks,
        # Without a sink it would make its table even where none is shown.
        **({"callbacks__print_log__sink": print_plainly} if verbose else {"callbacks__print_log": None}),
        train_split=train_split,
        device=device,
        verbose=verbose,
    )
    return net.initialize()


def schedule(epochs: int, patience: int, threshold: float, validated: bool, verbose: int) -> list[Any]:
    """The learning rate falls to 0 by a cosine; training ends when the loss no longer does.

    Args:
        epochs: length of the cosine.
        patience, threshold: end after so many epochs whose loss is not below the best by so much.
        validated: watch the loss of the rows that were held out, and return to its best weights.
    """
    sink: Callable[..., None] = print if verbose else noop
    stop = EarlyStopping(
        monitor="valid_loss" if validated else "train_loss",
        patience=patience,
        threshold=threshold,
        threshold_mode="abs",
        load_best=validated,
        sink=sink,
    )
    return [("learning_rate", LRScheduler(CosineAnnealingLR, T_max=epochs)), ("early_stopping", stop)]
