"""Anderson acceleration."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from geq.errors import OptionError
from geq.operators.operator import working_dtype
from geq.solvers.base import Rows, Solver, check_memory, check_range
from geq.solvers.rules import anderson_weights

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
            torch.finfo(z.dtype).eps,
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
