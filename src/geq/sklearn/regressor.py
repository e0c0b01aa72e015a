"""Regression."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy
import torch
from sklearn.base import RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_consistent_length

from geq.errors import InputError
from geq.sklearn.input_arrays import Array
from geq.sklearn.kernel_estimators import GaussianEstimator
from geq.sklearn.validation import check_answer, observed

Regressor = TypeVar("Regressor", bound="GEQRegressor")


class GEQRegressor(RegressorMixin, GaussianEstimator):
    """Regression around one Gaussian equilibrium (GEQ), for tables and images, of one or several targets.

    The network is that of :class:`~geq.sklearn.GEQClassifier`; the loss is the squared error of targets that
    are standardised inside (``target_scaler_``) and put back in predictions.

    Args:
        width, gamma, learn_gamma, bound, max_iter, batch_size, learning_rate, weight_decay, tol: as of
            :class:`~geq.sklearn.GEQClassifier`, and so are all that follow.
        n_iter_no_change, early_stopping, validation_fraction, warm_start, solver_tol, max_steps: …
        on_failure, image_shape, channel_axis, random_state, device, verbose: …

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> GEQRegressor(max_iter=40, random_state=0).fit(X, y).score(X, y) > 0.5
    True
    """

    classify = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self: Regressor, X: Any, y: Any, sample_weight: Any = None) -> Regressor:
        """Train on the whole of X.

        Args:
            X: a table ``(n, features)``, or images ``(n, h, w)``, ``(n, c, h, w)`` or ``(n, h, w, c)``.
            y: ``(n,)`` or ``(n, targets)`` numbers.
            sample_weight: n numbers that are not negative; a row of weight 2 counts as two rows, one of
                weight 0 is left out.
        """
        self._check_options()
        again = self.warm_start and hasattr(self, "net_")
        data, target, weight = self._read_all(X, y, sample_weight, reset=not again)
        if again:
            network = self.network_
        else:
            network = self._begin(data, target.shape[1])
            self._observe(data, weight)
            self.target_scaler_ = observed(StandardScaler(), target, weight, "y")
        self._train(network, data, self._standardised_target(target), weight)
        return self

    def partial_fit(self: Regressor, X: Any, y: Any, sample_weight: Any = None) -> Regressor:
        """One epoch over X, from where the last call (or ``fit``) ended; arguments as of :meth:`fit`.

        The statistics by which inputs and targets are standardised accumulate over all calls.
        """
        self._check_options()
        first = not hasattr(self, "net_")
        data, target, weight = self._read_all(X, y, sample_weight, reset=first)
        if first:
            network = self._begin(data, target.shape[1])
            self.target_scaler_ = StandardScaler()
        else:
            network = self.network_
        target_scaler = observed(self.target_scaler_, target, weight, "y")
        self._observe(data, weight)  # refuses before the statistics of the targets are replaced
        self.target_scaler_ = target_scaler
        self._train_once(network, data, self._standardised_target(target), weight)
        return self

    def _read_all(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Array, Array, Array]:
        """The rows of weight above 0, their targets ``(n, targets)`` and weights."""
        if y is None:
            # scikit-learn's tools look for these words.
            raise InputError("requires y to be passed, but the target y is None: a regressor needs targets")
        data = self._read(X, reset)
        target = check_array(y, ensure_2d=False, dtype=numpy.float64, input_name="y")
        if target.ndim == 1 or target.shape[1] == 1:
            flat = column_or_1d(target, warn=True)
            several, target = False, flat.reshape(-1, 1)
        else:
            several = True
        check_consistent_length(data, target)
        if reset:
            self._several, self._targets = several, target.shape[1]
        elif target.shape[1] != self._targets:
            raise InputError(f"y must have {self._targets} targets, as before: got {target.shape[1]}")
        weight = self._weights(sample_weight, data)
        used = weight > 0
        return data[used], target[used], weight[used]

    def _standardised_target(self, target: Array) -> torch.Tensor:
        return torch.from_numpy(self.target_scaler_.transform(target)).to(self._dtype)

    def predict(self, X: Any) -> Array:
        """The targets of each row, ``(n,)`` or ``(n, targets)`` as ``y`` was."""
        outputs = self._outputs(X).numpy()
        with numpy.errstate(over="ignore"):
            predicted = self.target_scaler_.inverse_transform(outputs)
        check_answer(predicted)
        return predicted if self._several else predicted[:, 0]
