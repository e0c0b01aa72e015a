"""The interface of a solver, what every solve returns, and the plain iteration."""

from __future__ import annotations

import enum
from abc import abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from geq.cells.base import Equation, State
from geq.errors import CheckedOptions, OptionError

Memory = TypeVar("Memory")
Rows = Float[Tensor, "batch size"]
"""A matrix with a row for each sample."""


class Status(enum.Enum):
    """How a solve ended; the value says it to a person, with what to try."""

    CONVERGED = "every sample reached the tolerance"
    MAX_STEPS = (
        "the tolerance was not reached within max_steps evaluations; increase max_steps or tol, "
        "try another solver, or bound the norm of the weights"
    )
    DIVERGED = (
        "the iteration became infinite, NaN or blew up; damp it (Picard(damping=0.5), Anderson(mixing=0.5)), "
        "bound the norm of the weights, or check the map for NaN"
    )


@dataclass(frozen=True)
class Solution:
    """The fixed points of a batch, and how well each is known.

    Attributes:
        value: The state with the lowest residual seen, per sample: the point z at which ``residual`` was
            measured (not its image f(z)). Samples that converged keep the value at which they first did.
        residual: (batch,) relative residual ‖f(z) − z‖ / (‖f(z)‖ + abs_tol/tol), at most ``tol`` exactly
            where ``converged``; infinity if no evaluation was finite. At least single precision.
        converged: (batch,) which samples reached the tolerance.
        steps: (batch,) evaluations of the map until the sample converged or diverged, or all of them.
        status: The worst over the samples: diverged, then out of steps, then converged.
        trace: (evaluations, batch) residuals after each evaluation if asked for; a stopped sample keeps its
            last.
    """

    value: State
    residual: Float[Tensor, " batch"]
    converged: Bool[Tensor, " batch"]
    steps: Int64[Tensor, " batch"]
    status: Status
    trace: Float[Tensor, "evaluations batch"] | None = None


class Solver(Generic[Memory], metaclass=CheckedOptions):
    """An iteration z ← step(z, f(z)), as a frozen dataclass of its options.

    A solver holds no state between solves: what it remembers travels through :meth:`step`. It never decides
    when to stop; :func:`~geq.solvers.fixed_point.fixed_point` does. It works on ``(batch, size)`` matrices,
    one row per sample, and must treat the rows independently: NaN in one row may not reach another.
    """

    def prepare(self, equation: Equation) -> Equation:
        """Return the equation that is iterated on: by default the smallest equivalent one."""
        return equation.reduced()

    def check_tolerance(self, tol: float, dtype: torch.dtype) -> None:
        """Refuse a tolerance to which this solver cannot measure residuals in that precision."""

    @abstractmethod
    def init(self, z: Rows) -> Memory:
        """Return the memory before the first step from ``z``."""

    @abstractmethod
    def step(self, z: Rows, fz: Rows, residual: Rows, memory: Memory) -> tuple[Rows, Memory]:
        """Return the next state, from ``fz`` = f(z) and ``residual`` = f(z) − z, and the new memory.

        The given memory is spent (it may have been updated in place); ``z``, ``fz`` and ``residual`` are not
        changed.
        """


def check_range(owner: object, name: str, value: float, low: float, high: float) -> None:
    """Refuse an option outside (low, high]."""
    if not low < value <= high:
        raise OptionError(f"{type(owner).__name__}: {name} must lie in ({low:g}, {high:g}]: got {value!r}")


MOST_MEMORY = 1000
"""States that a solver may keep: the inner products take the square of it for each sample."""


def check_memory(owner: object, value: int) -> None:
    """Refuse a memory that is not a positive whole number, or too large to be held."""
    if not isinstance(value, int) or value < 1:
        raise OptionError(
            f"{type(owner).__name__}: memory must be a whole number of at least 1: got {value!r}; 5 is usual"
        )
    if value > MOST_MEMORY:
        raise OptionError(
            f"{type(owner).__name__}: memory must be at most {MOST_MEMORY}: got {value}; 5 is usual"
        )


@dataclass(frozen=True)
class Picard(Solver[None]):
    """z ← (1 − damping)·z + damping·f(z).

    Converges linearly with the rate of the contraction. Damping below 1 also makes non-expansive maps and
    maps whose Jacobian has eigenvalues below −1 converge: an eigenvalue λ becomes 1 − damping·(1 − λ).
    """

    damping: float = 1.0

    def __post_init__(self) -> None:
        check_range(self, "damping", self.damping, 0.0, 1.0)

    def init(self, z: Rows) -> None:
        return None

    def step(self, z: Rows, fz: Rows, residual: Rows, memory: None) -> tuple[Rows, None]:
        return (fz if self.damping == 1 else z.add(residual, alpha=self.damping)), None
