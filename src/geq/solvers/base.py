"""The interface of a solver, what every solve returns, the plain iteration and Anderson acceleration."""

from __future__ import annotations

import enum
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from geq.cells.base import Equation, State
from geq.errors import CheckedOptions, OptionError
from geq.operators.operator import working_dtype
from geq.solvers import compiled_anderson
from geq.solvers.rules import anderson_weights

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


FIRST_SLOTS = 4
"""Slots of a new window: enough for most solves to 1e-3, which then never pay for the rest."""


@dataclass
class Window:
    """The last images and residuals, and the residuals' inner products; row ``filled % memory`` is next."""

    images: Float[Tensor, "batch slots size"]
    residuals: Float[Tensor, "batch slots size"]
    gram: Float[Tensor, "batch memory memory"]
    identity: Float[Tensor, "memory memory"]
    filled: int = 0


@dataclass(frozen=True)
class Anderson(Solver[Window]):
    """Anderson acceleration: the combination of the last states whose residual would be smallest.

    With r_i = f(z_i) − z_i for the last ``memory`` states, each sample takes

        α = argmin ‖Σ α_i r_i‖² + ridge·Σ α_i²‖r_i‖²  subject to Σ α_i = 1,
        z ← Σ α_i (z_i + mixing·r_i).

    On an affine map with ``memory`` above the dimension this is GMRES, and exact after dimension + 1
    evaluations.

    The ridge is relative to the residuals, so that scaling the problem scales the iterates and changes no
    step; with an absolute one, small inputs stall. The window is scaled to a unit diagonal before the small
    system is solved. A sample whose system is so ill-conditioned that Σ|α_i| would lose more than half of the
    digits takes the plain step instead. States of 16 bits keep their history in 16 bits; inner products and
    sums are taken in 32.

    Args:
        memory: States to combine; 1 is :class:`~geq.solvers.Picard` with ``damping=mixing``.
        mixing: Length of the step along the combined residual, in (0, 1].
        ridge: Relative regularisation, in [0, 1); never taken below the rounding error of the inner products.
    """

    memory: int = 5
    mixing: float = 1.0
    ridge: float = 1e-8

    def __post_init__(self) -> None:
        check_memory(self, self.memory)
        check_range(self, "mixing", self.mixing, 0.0, 1.0)
        if not 0 <= self.ridge < 1:
            raise OptionError(f"Anderson: ridge must lie in [0, 1): got {self.ridge!r}; 1e-8 is usual")

    def init(self, z: Rows) -> Window:
        batch, size = z.shape
        history = (batch, min(self.memory, FIRST_SLOTS), size)
        gram = z.new_zeros(batch, self.memory, self.memory, dtype=working_dtype(z.dtype))
        identity = torch.eye(self.memory, dtype=gram.dtype, device=z.device)
        return Window(z.new_empty(history), z.new_empty(history), gram, identity)

    def step(self, z: Rows, fz: Rows, residual: Rows, memory: Window) -> tuple[Rows, Window]:
        slot, memory.filled = memory.filled % self.memory, memory.filled + 1
        count = min(memory.filled, self.memory)
        dtype = memory.gram.dtype
        if slot >= memory.images.shape[1]:  # once, when the first slots do not do
            more = (0, 0, 0, self.memory - slot)
            memory.images = F.pad(memory.images, more)
            memory.residuals = F.pad(memory.residuals, more)
        eps = torch.finfo(z.dtype).eps
        if compiled_anderson.usable(fz, self.memory):
            history = memory.images, memory.residuals, memory.gram
            options = self.ridge, 1 / math.sqrt(eps), self.mixing
            return compiled_anderson.step(fz, residual, history, slot, count, options), memory
        memory.images[:, slot] = fz
        memory.residuals[:, slot] = residual
        images, residuals = memory.images[:, :count].to(dtype), memory.residuals[:, :count].to(dtype)
        products = inner_products(residuals, residual.to(dtype))
        memory.gram[:, slot, :count] = products
        memory.gram[:, :count, slot] = products

        plain = memory.identity[slot, :count]
        gram = memory.gram[:, :count, :count]
        weights = anderson_weights(
            gram,
            gram.diagonal(dim1=1, dim2=2),
            memory.identity[:count, :count],
            plain,
            self.ridge,
            eps,
            # A singular system gives NaN or infinity instead of an error.
            lambda system, right: torch.linalg.solve_ex(system, right)[0],
        )
        # The solver of the small system leaves them column by column, for which bmm would copy the images.
        weights = weights.contiguous().unsqueeze(1)
        mixed = torch.bmm(weights, images)
        if self.mixing != 1:
            mixed = torch.baddbmm(mixed, weights, residuals, alpha=self.mixing - 1)
        return mixed.squeeze(1).to(z.dtype), memory


def inner_products(rows: Float[Tensor, "batch n size"], vector: Rows) -> Tensor:
    """⟨row, vector⟩ for the rows of each sample.

    As (1 × size)(size × n): on CPUs the product (n × size)(size × 1) of the same numbers is ten times slower.
    """
    return torch.bmm(vector.unsqueeze(1), rows.transpose(1, 2)).squeeze(1)
