"""Base of the estimators: reading arrays, standardising, training, predicting."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from skorch import NeuralNet
from skorch.dataset import ValidSplit
from torch import Tensor

from geq.certificates.well_posedness import WellPosedness
from geq.constraints import SpectralBound
from geq.errors import CheckedOptions, InputError
from geq.model.network import EquilibriumReport
from geq.sklearn.input_arrays import Array, as_rows, channels_first, from_rows, unflattened
from geq.sklearn.network import EstimatorNetwork, ImageNetwork, Layers, TabularNetwork
from geq.sklearn.training_loop import Rows, schedule, training_net
from geq.sklearn.validation import (
    check_answer,
    check_number,
    check_standardised,
    check_weights,
    check_whole,
    observed,
    stores_anything,
)

TABLE_WIDTH, IMAGE_WIDTH = 64, 32


class EquilibriumEstimator(BaseEstimator, metaclass=CheckedOptions):
    """Base class; a subclass gives the layers and the targets.

    Fitted attributes of every subclass: ``n_features_in_`` (entries of a row, pixels and channels of an
    image), ``feature_names_in_`` (where X has names), ``image_shape_`` (c, h, w; None for tables),
    ``scaler_`` (the statistics of the inputs), ``net_`` (skorch's), ``network_`` (the torch module),
    ``n_iter_`` (epochs) and ``loss_curve_`` (training loss of each).
    """

    @stores_anything
    def __init__(
        self,
        *,
        width: int | None = None,
        bound: float | int = 0.95,
        max_iter: int = 100,
        batch_size: int = 256,
        learning_rate: float | int = 0.01,
        weight_decay: float | int = 1.0,
        tol: float | int = 1e-4,
        n_iter_no_change: int = 10,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        solver_tol: float = 1e-3,
        max_steps: int = 50,
        on_failure: str | None = None,
        image_shape: Sequence[int] | None = None,
        channel_axis: int | None = None,
        random_state: Any = None,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.width = width
        self.bound = bound
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.solver_tol = solver_tol
        self.max_steps = max_steps
        self.on_failure = on_failure
        self.image_shape = image_shape
        self.channel_axis = channel_axis
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    classify: bool
    """True if targets are classes."""
    scaler_: StandardScaler

    @abstractmethod
    def _layers(self) -> Layers:
        """The equilibrium, for tables and for images."""

    def _solving(self) -> dict[str, Any]:
        """The options that every equilibrium layer has."""
        return {
            "constraint": SpectralBound(float(self.bound)),
            "tol": float(self.solver_tol),
            "max_steps": int(self.max_steps),
            "on_failure": self.on_failure,
        }

    @property
    def network_(self) -> EstimatorNetwork:
        """The trained torch module: logits, or standardised targets, of standardised inputs."""
        check_is_fitted(self, "net_")
        return self.net_.module_

    @property
    def solution_(self) -> EquilibriumReport:
        """Statistics of the last prediction's solves: steps, residual, share that converged."""
        report = self.network_.report
        if report is None:
            raise NotFittedError("solution_ is there after a prediction: call predict first")
        return report

    def well_posedness(self) -> WellPosedness:
        """Return the certificate of the trained weights: uniqueness, contraction."""
        network = self.network_
        return network.equilibrium.well_posedness(network.map_size)

    def _check_options(self) -> None:
        if self.width is not None:
            check_whole("width", self.width)
        for name in ("max_iter", "batch_size", "n_iter_no_change", "max_steps"):
            check_whole(name, getattr(self, name))
        for name in ("bound", "learning_rate", "solver_tol"):
            check_number(name, getattr(self, name), 0)
        for name in ("weight_decay", "tol"):
            check_number(name, getattr(self, name), 0, including=True)
        check_number("validation_fraction", self.validation_fraction, 0, 1)

    # ------------------------------------------------------------------------------------------- reading

    def _read(self, X: Any, reset: bool) -> Array:
        """X checked, as ``(n, features)`` or ``(n, c, h, w)``."""
        # Not numpy.ndim, which asks the array's own library where it has one.
        axes = X.ndim if hasattr(X, "ndim") else numpy.asarray(X).ndim
        if axes > 2:
            whole = numpy.asarray(X).dtype.kind in "uib"
            dtype = numpy.float32 if whole else (numpy.float64, numpy.float32)
            images = channels_first(check_array(X, dtype=dtype, allow_nd=True), self.channel_axis)
            if reset:
                self.n_features_in_ = int(numpy.prod(images.shape[1:]))
                if hasattr(self, "feature_names_in_"):
                    del self.feature_names_in_
            return self._same_kind(images, reset)
        table = validate_data(self, X, reset=reset, dtype=(numpy.float64, numpy.float32))
        if self.image_shape is None:
            return self._same_kind(table, reset)
        images = channels_first(unflattened(table, self.image_shape), self.channel_axis)
        return self._same_kind(images, reset)

    def _same_kind(self, data: Array, reset: bool) -> Array:
        shape = tuple(data.shape[1:]) if data.ndim == 4 else None
        if reset:
            self.image_shape_ = shape
        elif shape != self.image_shape_:
            seen, came = (str(s) if s else "tables" for s in (self.image_shape_, shape))
            raise InputError(
                f"{type(self).__name__} was fitted to {seen}: got {came}; images are (c, h, w) here"
            )
        return data

    def _standardised(self, data: Array) -> Tensor:
        with numpy.errstate(over="ignore"):  # what overflows is refused below
            rows = from_rows(self.scaler_.transform(as_rows(data)), data)
        x = torch.from_numpy(numpy.ascontiguousarray(rows)).to(self._dtype)
        check_standardised(x)
        return x

    def _observe(self, data: Array, weight: Array) -> None:
        """Let the statistics of the inputs follow these."""
        rows = as_rows(data)
        self.scaler_ = observed(self.scaler_, rows, numpy.repeat(weight, len(rows) // len(data)), "X")

    # ------------------------------------------------------------------------------------------ training

    def _weights(self, sample_weight: Any, data: Array) -> Array:
        """One number per row, 1 on average over the rows whose weight is not 0."""
        weight = _check_sample_weight(
            sample_weight, data[:, :1].reshape(len(data), -1), dtype=numpy.float64, ensure_non_negative=True
        )
        return weight / weight[weight > 0].mean()

    def _begin(self, data: Array, outputs: int) -> EstimatorNetwork:
        """A fresh network, and fresh statistics, for data of this kind."""
        # Images in single precision, where convolutions are fast; scikit-learn's own come in double.
        single = data.dtype == numpy.float32 or self.image_shape_ is not None
        self._dtype = torch.float32 if single else torch.float64
        self._random_state = check_random_state(self.random_state)
        self.scaler_ = StandardScaler()
        self._streams = False
        self.loss_curve_: list[float] = []
        layers = self._layers()
        with self._seeded():
            if self.image_shape_ is None:
                network: EstimatorNetwork = TabularNetwork(
                    layers, data.shape[1], int(self.width or TABLE_WIDTH), outputs
                )
            else:
                network = ImageNetwork(layers, self.image_shape_, int(self.width or IMAGE_WIDTH), outputs)
        return network.to(self._dtype)

    def _train(self, network: EstimatorNetwork, data: Array, target: Tensor, weight: Array) -> None:
        """A whole fit: cosine schedule, until the loss stays."""
        seed = self._random_state.randint(2**31 - 1)
        split = ValidSplit(self.validation_fraction, stratified=self.classify, random_state=seed)
        callbacks = schedule(
            int(self.max_iter),
            int(self.n_iter_no_change),
            float(self.tol),
            self.early_stopping,
            int(self.verbose),
        )
        self.net_ = self._net(network, int(self.max_iter), callbacks, split if self.early_stopping else None)
        self._streams = False
        self._run(data, target, weight)
        self.loss_curve_ = list(self.net_.history[:, "train_loss"])
        self.n_iter_ = len(self.loss_curve_)

    def _train_once(self, network: EstimatorNetwork, data: Array, target: Tensor, weight: Array) -> None:
        """One epoch at the constant learning rate; Adam's memory lasts from call to call."""
        if not self._streams:
            self.net_ = self._net(network, 1, [], None)
            self._streams = True
        self._run(data, target, weight)
        self.loss_curve_.append(self.net_.history[-1, "train_loss"])
        self.n_iter_ = len(self.loss_curve_)

    def _net(
        self, network: EstimatorNetwork, epochs: int, callbacks: list[Any], split: ValidSplit | None
    ) -> NeuralNet:
        return training_net(
            network,
            classify=self.classify,
            epochs=epochs,
            batch_size=int(self.batch_size),
            learning_rate=float(self.learning_rate),
            weight_decay=float(self.weight_decay),
            callbacks=callbacks,
            train_split=split,
            device=self.device,
            verbose=int(self.verbose),
        )

    def _run(self, data: Array, target: Tensor, weight: Array) -> None:
        rows = Rows(self._standardised(data), target, torch.from_numpy(weight).to(self._dtype))
        with self._seeded():
            self.net_.partial_fit(rows, target.numpy())
        check_weights(self.network_)

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """torch draws from ``random_state`` inside; the caller's random numbers are left as they were."""
        devices = [self.device] if str(self.device).startswith("cuda") else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(self._random_state.randint(2**31 - 1))
            yield

    # ---------------------------------------------------------------------------------------- predicting

    def _outputs(self, X: Any) -> Tensor:
        """Return the network's output for every row, on the CPU, and store a report of the equilibria."""
        network = self.network_
        x = self._standardised(self._read(X, reset=False))
        nothing = x.new_empty(len(x))
        outputs, steps, residuals, converged = [], [], [], []
        for output in self.net_.forward_iter(Rows(x, nothing, nothing)):
            outputs.append(output.cpu())
            solution = network.equilibrium.last_solution
            assert solution is not None
            steps.append(solution.steps.cpu())
            residuals.append(solution.residual.cpu())
            converged.append(solution.converged.cpu())
        answer = torch.cat(outputs)
        check_answer(answer)
        network.report = EquilibriumReport(
            steps_mean=torch.cat(steps).double().mean().item(),
            steps_max=int(torch.cat(steps).max()),
            residual_max=torch.cat(residuals).double().max().item(),
            converged=torch.cat(converged).double().mean().item(),
        )
        return answer
