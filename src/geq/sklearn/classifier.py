"""Classification."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from geq.errors import InputError, OptionError
from geq.sklearn.base import EquilibriumEstimator
from geq.sklearn.input_arrays import Array
from geq.sklearn.kernel_estimators import GaussianEstimator, LinearKernelEstimator

Classifier = TypeVar("Classifier", bound="EquilibriumClassifier")


def two_classes(labels: Any) -> Array:
    """Return the classes among the labels; with fewer than two there is nothing to learn."""
    classes = numpy.unique(labels)
    if len(classes) < 2:
        raise InputError(f"a classifier needs labels of at least two classes: got {len(classes)} class")
    return classes


class EquilibriumClassifier(ClassifierMixin, EquilibriumEstimator):
    """Cross-entropy over the labels in ``classes_``, which may be of any type."""

    classify = True

    def fit(self: Classifier, X: Any, y: Any, sample_weight: Any = None) -> Classifier:
        """Train on the whole of X.

        Args:
            X: a table ``(n, features)``, or images ``(n, h, w)``, ``(n, c, h, w)`` or ``(n, h, w, c)``.
            y: n labels.
            sample_weight: n numbers that are not negative; a row of weight 2 counts as two rows, one of
                weight 0 is left out.
        """
        self._check_options()
        again = self.warm_start and hasattr(self, "net_")
        data, labels = self._read_both(X, y, reset=not again)
        weight = self._weights(sample_weight, data)
        if not again:
            self.classes_ = two_classes(labels)
        used = weight > 0
        data, weight, target = data[used], weight[used], torch.from_numpy(self._indices(labels)[used])
        if again:
            network = self.network_
        else:
            network = self._begin(data, len(self.classes_))
            self._observe(data, weight)
        self._train(network, data, target, weight)
        return self

    def partial_fit(
        self: Classifier, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Classifier:
        """One epoch over X, from where the last call (or ``fit``) ended.

        The statistics by which inputs are standardised accumulate over all calls.

        Args:
            X, y, sample_weight: as of :meth:`fit`.
            classes: all labels that will ever come; needed in the first call, unless ``fit`` came before.
        """
        self._check_options()
        first = not hasattr(self, "net_")
        if first and classes is None:
            raise OptionError("classes must be given in the first call of partial_fit: got None")
        data, labels = self._read_both(X, y, reset=first)
        weight = self._weights(sample_weight, data)
        if first:
            self.classes_ = two_classes(classes)
        elif classes is not None and not numpy.array_equal(numpy.unique(classes), self.classes_):
            raise OptionError(
                f"classes must be those of the first call, {self.classes_}: got {numpy.unique(classes)}"
            )
        used = weight > 0
        data, weight, target = data[used], weight[used], torch.from_numpy(self._indices(labels)[used])
        network = self._begin(data, len(self.classes_)) if first else self.network_
        self._observe(data, weight)
        self._train_once(network, data, target, weight)
        return self

    def _read_both(self, X: Any, y: Any, reset: bool) -> tuple[Array, Array]:
        if y is None:
            # scikit-learn's tools look for these words.
            raise InputError("requires y to be passed, but the target y is None: a classifier needs labels")
        data = self._read(X, reset)
        labels = column_or_1d(y, warn=True)
        check_consistent_length(data, labels)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        return data, labels

    def _indices(self, labels: Array) -> Array:
        """The place of every label in ``classes_``."""
        unknown = numpy.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise InputError(f"labels must be among the classes {self.classes_}: got {unknown} as well")
        return numpy.searchsorted(self.classes_, labels)

    def decision_function(self, X: Any) -> Array:
        """Return the logits ``(n, classes)``; of two classes ``(n,)``, that of the second less the first."""
        logits = self._outputs(X).numpy()
        return logits if logits.shape[1] > 2 else logits[:, 1] - logits[:, 0]

    def predict_proba(self, X: Any) -> Array:
        """``(n, classes)`` probabilities, in the order of ``classes_``."""
        return self._outputs(X).softmax(1).numpy()

    def predict(self, X: Any) -> Array:
        """The most probable label of each row."""
        places = self._outputs(X).argmax(1).numpy()
        return self.classes_[places]


class GEQClassifier(EquilibriumClassifier, GaussianEstimator):
    """A classifier around one Gaussian equilibrium (GEQ), for tables and images.

    Table: inputs, standardised → :class:`~geq.GEQLinear` → layer norm → linear, plus a linear map of the
    inputs. Images: convolution(s) → :class:`~geq.GEQ2d` → norm, ReLU → 4×4 average pool → linear.
    The fixed point is differentiated implicitly; AdamW with a learning rate that falls to 0 by a cosine.

    Args:
        width: entries (channels) of the state; default 64 for tables, 32 for images.
        gamma: γ relative to the squared distance that features of unit variance have; where learning starts.
        learn_gamma: learn γ; otherwise it stays.
        bound: ‖W‖ ≤ bound. Below 1.497 the equilibrium is unique, below 1 plain iteration contracts.
        max_iter: most epochs of a fit; the length of the cosine.
        batch_size: rows per step of the optimiser.
        learning_rate: at the start.
        weight_decay: decoupled, on matrices and kernels.
        tol, n_iter_no_change: stop after so many epochs that did not lower the loss by ``tol``.
        early_stopping: hold out ``validation_fraction`` of the rows, watch their loss instead, and return to
            the weights that were best by it.
        validation_fraction: share of rows to hold out.
        warm_start: let ``fit`` continue from the last fit's weights (same classes, same features).
        solver_tol, max_steps: relative residual of the fixed point, and the most evaluations to reach it.
        on_failure: "raise", "warn" or "ignore" where it is not reached. None warns once in training and once
            in prediction, as :class:`~geq.Equilibrium` does.
        image_shape: (h, w), (c, h, w) or (h, w, c): the rows of X are flattened images.
        channel_axis: 1 or −1 where the sizes do not tell which axis of images is the channels.
        random_state: a seed, a ``RandomState`` or None.
        device: of torch.
        verbose: 1 prints every epoch.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GEQClassifier(max_iter=40, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.solution_.converged
    1.0
    """


class OptEqClassifier(EquilibriumClassifier, LinearKernelEstimator):
    """A classifier around one equilibrium with the linear kernel (OptEq): z = σ(WᵀWz + Ux + b).

    As :class:`GEQClassifier`, with :class:`~geq.OptEqLinear` and :class:`~geq.OptEq2d`.

    Args:
        width: entries (channels) of the state; default 64 for tables, 32 for images.
        bound: ‖W‖ ≤ bound; below 1 the equilibrium is unique and plain iteration contracts.
        max_iter, batch_size, learning_rate, weight_decay, tol, n_iter_no_change, early_stopping: as of
            :class:`GEQClassifier`, and so are all that follow.
        validation_fraction, warm_start, solver_tol, max_steps, on_failure, image_shape, channel_axis: …
        random_state, device, verbose: …

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> OptEqClassifier(max_iter=40, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """
