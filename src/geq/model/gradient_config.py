"""Gradients and feature regularisers by their names in a configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from geq.errors import OptionError
from geq.gradients import Gradient, Implicit, JacobianFree, Phantom, SequentialAveraging, Unrolled
from geq.model.config import ADDED_LATER, Differentiation, NetworkConfig, Regulariser
from geq.regularizers import HSIC, Decorrelation, FeatureDecay, FeatureRegulariser, FeatureSparsity, Incay

FREQUENCIES = 64
"""Of "hsic_fourier"."""

REGULARISERS: dict[str, Callable[[], FeatureRegulariser]] = {
    "decay": FeatureDecay,
    "sparsity": FeatureSparsity,
    "incay": Incay,
    "decorrelation": Decorrelation,
    "hsic": HSIC,
    "hsic_fourier": lambda: HSIC(fourier=FREQUENCIES),
}

Stepped = TypeVar("Stepped", Phantom, Unrolled)


@dataclass(frozen=True)
class DifferentiationConfig(NetworkConfig):
    """A network whose equilibria can be differentiated in any way.

    Args:
        gradient: how the fixed point is differentiated; "averaging" also chooses it by the regulariser.
        gradient_tol: of "implicit"; None is 1e-3, or 1e-2 for the Gaussian kernels, whose weak feedback makes
            that as exact.
        gradient_steps: of "phantom", "unrolled" and "averaging"; None is the class's own (5 for "phantom",
            20 for the others, as in the papers).
        gradient_damping: of the same; None is the class's own (0.8 for "phantom", otherwise 1).
        regulariser: what the features should be like.
        regulariser_weight: its γ.
    """

    gradient: Differentiation = field(default="implicit", kw_only=True)
    gradient_tol: float | None = field(default=None, kw_only=True)
    gradient_steps: int | None = field(default=None, kw_only=True)
    gradient_damping: float | None = field(default=None, kw_only=True)
    regulariser: Regulariser = field(default="none", kw_only=True, metadata=ADDED_LATER)
    regulariser_weight: float = field(default=0.1, kw_only=True, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.regulariser_weight > 0:
            raise OptionError(
                f"regulariser_weight must be above 0: got {self.regulariser_weight}; the regulariser none "
                "has no effect at all"
            )
        if self.gradient == "averaging" and self.regulariser == "none":
            raise OptionError(
                f"gradient averaging needs a regulariser, one of {', '.join(REGULARISERS)}: got none; "
                "without one, use unrolled"
            )
        self.differentiation()  # a wrong number of steps is an error here, not when the network is built

    def feature_regulariser(self) -> FeatureRegulariser | None:
        return None if self.regulariser == "none" else REGULARISERS[self.regulariser]()

    def differentiation(self) -> Gradient:
        if self.gradient == "implicit":
            return self.implicit() if self.gradient_tol is None else Implicit(self.gradient_tol)
        if self.gradient == "jacobian_free":
            return JacobianFree()
        if self.gradient == "phantom":
            return self._stepped(Phantom())
        if self.gradient == "unrolled":
            return self._stepped(Unrolled())
        regulariser = self.feature_regulariser()
        assert regulariser is not None
        return self._stepped(SequentialAveraging(Unrolled.steps, regulariser, gamma=self.regulariser_weight))

    def implicit(self) -> Implicit:
        """The default."""
        return Implicit(tol=1e-3)

    def _stepped(self, gradient: Stepped) -> Stepped:
        if self.gradient_steps is not None:
            gradient = replace(gradient, steps=self.gradient_steps)
        if self.gradient_damping is not None:
            gradient = replace(gradient, damping=self.gradient_damping)
        return gradient
