"""Layers of the networks with a Deep OptEq: their options and construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from geq.constraints import SpectralBound
from geq.layers.deep import DeepOptEq2d
from geq.model.gradient_config import DifferentiationConfig
from geq.solvers import Anderson


@dataclass(frozen=True)
class DeepLayerConfig(DifferentiationConfig):
    """Args:
    channels: of the features W_l z, one number per layer.
    alpha, learn_alpha: α of every layer, and whether each learns its own from there.
    separable: depthwise-separable convolutions.
    bound: largest operator norm of every W_l.
    tol, max_steps, memory: of the Anderson solver.
    """

    channels: tuple[int, ...] = field(kw_only=True)
    alpha: float = field(default=0.8, kw_only=True)
    learn_alpha: bool = field(default=False, kw_only=True)
    separable: bool = field(default=False, kw_only=True)
    bound: float = field(default=0.95, kw_only=True)
    tol: float = field(default=1e-3, kw_only=True)
    max_steps: int = field(default=50, kw_only=True)
    memory: int = field(default=5, kw_only=True)

    def deep_layer(
        self,
        in_channels: int,
        state_channels: int | None = None,
        *,
        kernel_size: int | Sequence[int] = 3,
        activation: Callable[[Tensor], Tensor] | None = None,
        normalise_input: bool = False,
    ) -> DeepOptEq2d:
        """The deep equilibrium on an input of ``in_channels``."""
        return DeepOptEq2d(
            in_channels,
            self.channels,
            state_channels,
            kernel_size=kernel_size,
            alpha=self.alpha,
            learn_alpha=self.learn_alpha,
            activation=activation,
            separable=self.separable,
            normalise_input=normalise_input,
            constraint=SpectralBound(self.bound),
            # The gradient "averaging" follows the regulariser itself.
            regulariser=None if self.gradient == "averaging" else self.feature_regulariser(),
            regulariser_step=self.regulariser_weight,
            solver=Anderson(self.memory),
            gradient=self.differentiation(),
            tol=self.tol,
            max_steps=self.max_steps,
        )
