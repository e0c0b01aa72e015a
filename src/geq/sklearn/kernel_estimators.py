"""Layers of the estimators: GEQ's with a Gaussian kernel and its rule for γ, OptEq's with a linear kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from geq.bandwidth import GammaRule
from geq.errors import OptionError
from geq.layers import GEQ2d, GEQLinear, OptEq2d, OptEqLinear
from geq.sklearn.base import EquilibriumEstimator
from geq.sklearn.network import Layers
from geq.sklearn.validation import check_number, stores_anything


class ExpectedGamma(GammaRule):
    """γ = softplus(θ)/E, E the squared distance that features of unit variance have at z = 0.

    The default rule of the layers, :class:`~geq.bandwidth.LearnedGamma`, divides by a running mean over the
    batches instead. An estimator standardises its inputs, so that E serves as well, and then nothing in
    training couples one row to another: a row of weight two is two rows.

    Args:
        initial: γE at the start.
        learned: whether θ is learned.
    """

    theta: Tensor

    def __init__(self, initial: float | int, learned: bool) -> None:
        super().__init__()
        if not (math.isfinite(initial) and initial > 0):
            raise OptionError(f"gamma must be finite and above 0: got {initial!r}; 0.2 is usual")
        theta = torch.tensor(initial + math.log(-math.expm1(-initial)))
        if learned:
            self.theta = nn.Parameter(theta)
        else:
            self.register_buffer("theta", theta)

    def forward(self, q: Float[Tensor, "batch patches"], expected: Tensor, observe: bool) -> Tensor:
        return F.softplus(self.theta.to(q.dtype)) / expected


class LinearKernelEstimator(EquilibriumEstimator):
    """z = σ(WᵀWz + Ux + b) (GEQ eq. 3–4)."""

    def _layers(self) -> Layers:
        def linear(inputs: int, width: int) -> OptEqLinear:
            return OptEqLinear(
                inputs,
                width,
                **self._solving(),
            )

        def conv(inputs: int, width: int) -> OptEq2d:
            return OptEq2d(
                inputs,
                width,
                normalise_input=False,
                **self._solving(),
            )

        return Layers(linear, conv)


class GaussianEstimator(EquilibriumEstimator):
    """z = σ(e^{−γ‖r‖²}Wᵀr), r = Ux + b − Wz (GEQ eq. 5–6); per patch for images (eq. 16)."""

    @stores_anything
    def __init__(
        self,
        *,
        width: int | None = None,
        gamma: float | int = 0.2,
        learn_gamma: bool = True,
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
        super().__init__(
            width=width,
            bound=bound,
            max_iter=max_iter,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            tol=tol,
            n_iter_no_change=n_iter_no_change,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            warm_start=warm_start,
            solver_tol=solver_tol,
            max_steps=max_steps,
            on_failure=on_failure,
            image_shape=image_shape,
            channel_axis=channel_axis,
            random_state=random_state,
            device=device,
            verbose=verbose,
        )
        self.gamma = gamma
        self.learn_gamma = learn_gamma

    def _check_options(self) -> None:
        super()._check_options()
        check_number("gamma", self.gamma, 0)

    def _layers(self) -> Layers:
        def linear(inputs: int, width: int) -> GEQLinear:
            return GEQLinear(
                inputs,
                width,
                gamma=ExpectedGamma(self.gamma, self.learn_gamma),
                **self._solving(),
            )

        def conv(inputs: int, width: int) -> GEQ2d:
            return GEQ2d(
                inputs,
                width,
                hidden=width,
                gamma=ExpectedGamma(self.gamma, self.learn_gamma),
                normalise_input=False,
                **self._solving(),
            )

        return Layers(linear, conv)
