"""Differentiation through the iterations: plain ones, and those that choose among the fixed points."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from geq.cells.base import Equation, State, parts_of
from geq.errors import ConvergenceError, InputError, OptionError
from geq.gradients.base import Find, Gradient, Record
from geq.solvers import Picard, Solution, fixed_point
from geq.solvers.base import check_range


@dataclass(frozen=True)
class Iterated(Gradient):
    """Base class of gradients for which the layer *is* its iterations. Subclasses give :meth:`trajectory`.

    The solver of the layer is not used: its output, in training and in evaluation, is the last iterate.

    Args:
        steps: Iterations, at least 1.
    """

    steps: int = 20

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise OptionError(f"{type(self).__name__}: steps must be at least 1: got {self.steps}")

    @property
    def iterations(self) -> int | None:
        return self.steps

    @property
    def evaluations(self) -> int:
        """Evaluations of the map."""
        return self.steps

    def run(self, equation: Equation, find: Find, tol: float, record: Record | None = None) -> Solution:
        z = self.iterate(equation, equation.start(), record)
        if not all(bool(torch.isfinite(part).all()) for part in parts_of(z)):
            raise ConvergenceError(
                f"the {self.steps} iterations of {type(self).__name__} must stay finite: they became NaN or "
                "infinite; bound the norm of the weights, damp the iteration, or take fewer steps"
            )
        with torch.no_grad():
            # One more evaluation measures the residual; a function, because nothing may replace the map.
            end = fixed_point(equation.__call__, z, Picard(), tol=tol, max_steps=1, on_failure="ignore")
        return replace(end, value=z, steps=torch.full_like(end.steps, self.evaluations))

    def iterate(self, fn: Callable[[Any], Any], z: State, record: Record | None = None) -> State:
        """Return the state after all steps, with their graph."""
        for following in self.trajectory(fn, z):
            z = following
        return z

    @abstractmethod
    def trajectory(self, fn: Callable[[Any], Any], z: State) -> Iterator[State]:
        """Yield the state after each step."""


@dataclass(frozen=True)
class Unrolled(Iterated):
    """The layer *is* ``steps`` damped iterations from the initial state, and autograd differentiates through
    them.

    Memory grows with ``steps``. It can be differentiated again, as :class:`~geq.gradients.Reversible` can.

    Args:
        steps: Iterations, at least 1.
        damping: In (0, 1]; z ← (1 − damping)z + damping·T(z).
    """

    transformable: ClassVar[bool] = True

    damping: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "damping", self.damping, 0.0, 1.0)

    def trajectory(self, fn: Callable[[Any], Any], z: State) -> Iterator[State]:
        for count in range(1, self.steps + 1):
            z = self.advance(fn, z, count)
            yield z

    def advance(self, fn: Callable[[Any], Any], z: State, count: int) -> State:
        """Return the state after step number ``count``, which begins at 1."""
        image = fn(z)
        if self.damping == 1:
            return image
        if isinstance(z, tuple):
            return tuple(old + self.damping * (new - old) for old, new in zip(z, image, strict=True))
        return z + self.damping * (image - z)


@runtime_checkable
class Smooth(Protocol):
    """What is needed of R: a :class:`~geq.regularizers.FeatureRegulariser`, or anything that has these."""

    @property
    def smoothness(self) -> float | None:
        """A Lipschitz constant of ∇R, where one is known."""

    def gradient(self, z: Tensor) -> Tensor:
        """∇R."""


@dataclass(frozen=True)
class SequentialAveraging(Unrolled):
    """``steps`` iterations z^k = β_k S_k(z^{k−1}) + (1 − β_k)T(z^{k−1}), with autograd through them (eq. 11).

    S_k(z) = (1 − γλ_k)z − γ∇R(z) is a gradient step on R + ½λ_k‖z‖². Where T has several fixed points, these
    iterates tend to the one with the least R (eq. 9), while those of T itself stay at whichever is near.

    **Theorem 5**: they do, for convex R with a unique minimiser on the fixed points and ∇R L_z-Lipschitz, if
    β_k = η/k^ρ, λ_k = η/k^c, γ = 1/(2L_z), ρ + 2c < 1 and η = min(√(2L_z), L_z/2, ½). (The theorem prints ρ
    for η in both sequences.) Three errors remain after k steps: the distance to the fixed points, of order
    k^{−ρ}; the pull of ½λ_k‖z‖², k^{−c}; and the lag behind a target that moves while β and λ fall,
    k^{−(1−ρ−2c)}. That is slow: with few steps R is an inclination of the features, not a constraint.

    With a regulariser that couples samples the output of a sample depends on its batch, in evaluation too.

    Args:
        steps: iterations, at least 1; the paper has 20.
        regulariser: R.
        damping: of T, as for :class:`Unrolled`.
        gamma: γ > 0; the default is 1/(2L_z), which needs a regulariser that knows L_z. It replaces L_z by
            1/(2γ) in η as well, so a smaller γ keeps the theorem.
        scale: η in (0, 1]; default as above.
        beta_power: ρ > 0. The default, with that of c, makes the two slower errors equal, k^{−0.2}, and the
            distance to the fixed points fall faster. The paper does not state its choice.
        lambda_power: c > 0.
    """

    steps: int = field()
    regulariser: Smooth = field()
    damping: float = field(default=1.0, kw_only=True)
    gamma: float | None = field(default=None, kw_only=True)
    scale: float | None = field(default=None, kw_only=True)
    beta_power: float = field(default=0.4, kw_only=True)
    lambda_power: float = field(default=0.2, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma is None and not self.regulariser.smoothness:
            raise OptionError(
                f"SequentialAveraging: {type(self.regulariser).__name__} knows no Lipschitz constant of its "
                "gradient, so the step size must be given: SequentialAveraging(..., gamma=0.1)"
            )
        if self.gamma is not None and not 0 < self.gamma < math.inf:
            raise OptionError(f"SequentialAveraging: gamma must be above 0: got {self.gamma}")
        if self.scale is not None:
            check_range(self, "scale", self.scale, 0.0, 1.0)
        powers = self.beta_power, self.lambda_power
        if not (min(powers) > 0 and powers[0] + 2 * powers[1] < 1):
            raise OptionError(
                "SequentialAveraging: beta_power and lambda_power must be above 0 with beta_power + "
                "2·lambda_power < 1, else the iterates need not converge (theorem 5): got "
                f"{powers[0]} and {powers[1]}"
            )

    @property
    def step_size(self) -> float:
        """γ."""
        if self.gamma is not None:
            return self.gamma
        assert self.regulariser.smoothness
        return 1 / (2 * self.regulariser.smoothness)

    @property
    def eta(self) -> float:
        """η, for the Lipschitz constant 1/(2γ)."""
        if self.scale is not None:
            return self.scale
        lipschitz = 1 / (2 * self.step_size)
        return min(math.sqrt(2 * lipschitz), lipschitz / 2, 0.5)

    def schedule(self, count: int) -> tuple[float, float]:
        """β_k and λ_k of step k = ``count``, which begins at 1."""
        return self.eta / count**self.beta_power, self.eta / count**self.lambda_power

    def advance(self, fn: Callable[[Any], Any], z: State, count: int) -> State:
        if isinstance(z, tuple):
            raise InputError(
                f"SequentialAveraging regularises a state of one tensor: got {len(z)}; use Unrolled for "
                "states of several"
            )
        image = super().advance(fn, z, count)
        assert isinstance(image, Tensor)
        beta, ridge = self.schedule(count)
        towards = (1 - self.step_size * ridge) * z - self.step_size * self.regulariser.gradient(z)
        return beta * towards + (1 - beta) * image
