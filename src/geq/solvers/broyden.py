"""Limited-memory Broyden's method."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geq.operators.operator import working_dtype
from geq.solvers.base import Rows, Solver, check_memory, inner_products

GROWTH = 10.0
"""A sample whose residual grows by more than this factor in one step forgets its updates."""


@dataclass
class Updates:
    """The inverse Jacobian −I + Σ valid_i u_i v_iᵀ of f(z) − z, and the step that was taken last."""

    left: Float[Tensor, "batch memory size"]
    right: Float[Tensor, "batch memory size"]
    valid: Float[Tensor, "batch memory"]
    step: Rows | None = None
    residual: Rows | None = None
    filled: int = 0


@dataclass(frozen=True)
class Broyden(Solver[Updates]):
    """Broyden's good method on g(z) = f(z) − z, with a low-rank inverse Jacobian per sample.

    The step is s = −H g(z), from H = −I (so that the first step is the plain one); with y = g(z + s) − g(z),

        H ← H + (s − H y) (sᵀH) / (sᵀH y)

    is the smallest change of the Jacobian that explains the last step. H is kept as −I + Σ u_i v_iᵀ and
    starts anew once ``memory`` pairs are stored. There is no line search. A sample skips an update whose
    denominator is lost in rounding, and forgets its pairs when its residual grows tenfold in one step.

    Args:
        memory: Pairs (u_i, v_i) to keep before the restart.
    """

    memory: int = 10

    def __post_init__(self) -> None:
        check_memory(self, self.memory)

    def init(self, z: Rows) -> Updates:
        batch, size = z.shape
        history = (batch, self.memory, size)
        valid = z.new_zeros(batch, self.memory, dtype=working_dtype(z.dtype))
        return Updates(z.new_empty(history), z.new_empty(history), valid)

    def step(self, z: Rows, fz: Rows, residual: Rows, memory: Updates) -> tuple[Rows, Updates]:
        now = residual.to(memory.valid.dtype)
        if memory.step is None or memory.residual is None or memory.filled == self.memory:
            memory.filled = 0
            move = now
        else:
            move = self._update(memory, memory.step, now - memory.residual, now)
        memory.step, memory.residual = move, now
        return (z + move).to(z.dtype), memory

    def _update(self, memory: Updates, step: Tensor, change: Tensor, now: Tensor) -> Tensor:
        """Store the pair that explains ``change`` by ``step``; return the next step −H·``now``."""
        slot, memory.filled = memory.filled, memory.filled + 1
        left, right = memory.left[:, :slot].to(now.dtype), memory.right[:, :slot].to(now.dtype)
        valid = memory.valid[:, :slot]
        steady = _norm(now) <= GROWTH * _norm(now - change)
        valid *= steady

        v = _combine(right, valid * inner_products(left, step)) - step
        applied = _combine(left, valid * inner_products(right, now)) - now
        # The last step was −H g(z), hence H y = H g(z + s) + s and u = (s − H y)/(vᵀy) = −H g(z + s)/(vᵀy).
        denominator = (v * change).sum(1, keepdim=True)
        threshold = math.sqrt(torch.finfo(now.dtype).eps) * _norm(v) * _norm(change)
        usable = steady & (denominator.abs() > threshold)  # false for NaN as well
        u = applied * torch.where(usable, -1 / denominator, 0)

        memory.left[:, slot] = u
        memory.right[:, slot] = v
        memory.valid[:, slot] = usable.squeeze(1).to(now.dtype)
        return torch.where(steady, -applied - u * (v * now).sum(1, keepdim=True), now)


def _combine(rows: Float[Tensor, "batch n size"], weights: Float[Tensor, "batch n"]) -> Tensor:
    return torch.bmm(weights.unsqueeze(1), rows).squeeze(1)


def _norm(vector: Rows) -> Float[Tensor, "batch 1"]:
    return torch.linalg.vector_norm(vector, dim=1, keepdim=True)
