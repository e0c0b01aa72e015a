"""Subject of an analysis: a trained network in double precision, with its data."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from geq.analysis.settings import Progress, Settings, silent
from geq.analysis.weight_norms import LayerNorms, has_norms, layer_norms
from geq.constraints import SpectralBound
from geq.constraints.spectral import Apply
from geq.data.dataset import Dataset, Labelled
from geq.data.dataset_options import Split
from geq.data.loader import BatchLoader
from geq.equilibrium import Equilibrium, ignore_failures
from geq.errors import InputError
from geq.gradients import Implicit
from geq.model.network import Network
from geq.operators import Convolution
from geq.operators.operator import size_of
from geq.solvers import Anderson
from geq.training.run_folder import RunFolder
from geq.training.setup import evaluation_loader, open_split


class Settled(SpectralBound):
    """The rule of a weight that satisfies its bound already."""

    def forward(self, weight: Tensor, apply: Apply, adjoint: Apply, shape: tuple[int, ...]) -> Tensor:
        return weight


@torch.no_grad()
def in_double(model: Network) -> Network:
    """Convert ``model`` itself, for images of its own size; it computes what it did in single precision.

    Its effective weights are converted and left alone. Otherwise it would measure the norms of its weights
    again, to more digits: minutes for a large one, and other weights than those in use.
    """
    model.eval()
    sizes = model.map_sizes()
    bounded = [
        (operator, operator.constraint.bound, operator.effective_weight(sizes[name]))
        for name, layer in model.equilibria().items()
        for operator in layer.modules()
        if isinstance(operator, Convolution) and isinstance(operator.constraint, SpectralBound)
    ]
    model.double()
    for operator, bound, weight in bounded:
        operator.raw_weight.copy_(weight)
        operator.adopt_constraint(Settled(bound))
    return model.eval()


class Subject:
    """A run under analysis.

    Args:
        folder: of the run.
        settings: of the analysis.
        data_root: of the datasets.
        again: recompute the stored intermediate results of a part.
        progress: of what takes long.
    """

    def __init__(
        self,
        folder: RunFolder,
        settings: Settings,
        data_root: str | None = None,
        again: bool = False,
        progress: Progress = silent,
    ) -> None:
        self.folder, self.settings = folder, settings
        self.data_root, self.again, self.progress = data_root, again, progress
        options = folder.options()
        chosen = {**options.data_override, **settings.data_override}
        self.options = replace(options, data_root=data_root, data_override=chosen)
        self.model = Network.from_pretrained(folder.model)
        self._norms: dict[str, LayerNorms | None] = {}

    @cached_property
    def precise(self) -> Network:
        """The network in double precision, so that what is certified is not blurred by rounding."""
        return in_double(Network.from_pretrained(self.folder.model))

    def batch(self, split: Split, count: int) -> tuple[Tensor, Tensor]:
        """The first ``count`` normalised images of a split, in double precision, and their labels."""
        dataset = self._own(split)
        loader = evaluation_loader(dataset, batch_size=count, statistics=self.folder.data().statistics)
        images, labels = next(iter(loader))
        return images.double(), labels

    def labelled(self, split: Split) -> Labelled:
        """A split with one label per image; an error where pixels are labelled."""
        dataset = self._own(split)
        if not isinstance(dataset, Labelled):
            raise InputError(
                f"{self.folder.path} is a segmenter, and this part needs one label per image: "
                f"{dataset.name} has masks; choose a run that classifies images"
            )
        images, _ = dataset.batch(torch.zeros(1, dtype=torch.int64))
        if tuple(images.shape[1:]) != self.folder.data().shape:
            raise InputError(
                f"{dataset.name} must have images of the size that the run was trained on, "
                f"{self.folder.data().shape}: got {tuple(images.shape[1:])}; see --data_root"
            )
        return dataset

    def _own(self, split: Split) -> Dataset:
        """Open a split of the run's data; an error where its labels no longer mean the run's classes."""
        dataset = open_split(self.options, split)
        self.folder.data().check_classes(dataset)
        return dataset

    def loader(self, dataset: Dataset) -> BatchLoader:
        """Every image once, in order, normalised as in training."""
        return evaluation_loader(dataset, statistics=self.folder.data().statistics)

    def beside(self, path: str) -> Subject:
        """Return another run as a subject with the same settings."""
        folder = RunFolder.find(path, self.folder.path.parent)
        return Subject(folder, self.settings, self.data_root, False, self.progress)

    @cached_property
    def layers(self) -> dict[str, Equilibrium]:
        """The equilibria of the precise network; an error where there are none."""
        return equilibria(self.precise, str(self.folder.path))

    def norms(self, name: str) -> LayerNorms | None:
        """The norms of an equilibrium's operators, computed once; None where there is no hidden problem."""
        if name not in self._norms:
            layer = self.layers[name]
            layer.cell.inject(self.inputs[name][:1])  # the norm of a convolution is that of the last map seen
            self._norms[name] = (
                layer_norms(layer.problem, size_of(self.inputs[name])) if has_norms(layer) else None
            )
        return self._norms[name]

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        """Return the input of each equilibrium for the first test images."""
        images, _ = self.batch("test", self.settings.images)
        return inputs(self.precise, images)


def equilibria(model: Network, where: str) -> dict[str, Equilibrium]:
    found = model.equilibria()
    if not found:
        raise InputError(
            f"{where} has no equilibrium to analyse: {model.registry_name or type(model).__name__} computes "
            "its output directly; choose a run of geq, kerdeq, opteq, mopteq, mdeq or mon"
        )
    return found


@torch.no_grad()
def inputs(model: Network, images: Tensor) -> dict[str, Tensor]:
    """Return the input of each equilibrium for ``images``."""
    with ignore_failures(model):
        return model.inputs_of_equilibria(images)


def solved_tightly(layer: Equilibrium, tol: float = 1e-10, max_steps: int = 2000) -> Equilibrium:
    """A layer on the same weights that solves to ``tol`` and differentiates as exactly."""
    solver: Any = Anderson(memory=8)
    tight = Equilibrium(layer.cell, solver, Implicit(tol=tol), tol, max_steps, on_failure="ignore")
    return tight.train(layer.training)
