"""The loop of :func:`~geq.solvers.fixed_point.fixed_point` as one ``while_loop``, for export.

The rules are those of :mod:`geq.solvers.rules`: a sample that has converged or diverged is held at its best
state, everything else is per sample. What differs is the arithmetic of a step: nothing is changed in place,
and Anderson's system is solved by :func:`~geq.export.elimination.solve_positive`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geq.errors import OptionError
from geq.export.elimination import solve_positive
from geq.solvers import Anderson, Picard, Solver, rules

Memory = tuple[Tensor, ...]


class Steps(ABC):
    """A solver's step without side effects: what it remembers is a tuple of tensors of constant shape."""

    @abstractmethod
    def init(self, z: Float[Tensor, "batch size"]) -> Memory: ...

    @abstractmethod
    def step(self, z: Tensor, fz: Tensor, residual: Tensor, memory: Memory) -> tuple[Tensor, Memory]: ...


@dataclass(frozen=True)
class PicardSteps(Steps):
    damping: float

    def init(self, z: Float[Tensor, "batch size"]) -> Memory:
        return ()

    def step(self, z: Tensor, fz: Tensor, residual: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        return z + self.damping * residual, memory


@dataclass(frozen=True)
class AndersonSteps(Steps):
    """:class:`~geq.solvers.Anderson` with the window as a queue, newest first; empty slots are zero."""

    memory: int
    mixing: float
    ridge: float

    def init(self, z: Float[Tensor, "batch size"]) -> Memory:
        window = z.new_zeros(z.shape[0], self.memory, z.shape[1])
        return window, torch.zeros_like(window)

    def step(self, z: Tensor, fz: Tensor, residual: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        images, residuals = (
            torch.cat((new.unsqueeze(1), window[:, :-1]), 1)
            for new, window in zip((fz, residual), memory, strict=True)
        )
        weights = self.weights(residuals).unsqueeze(1)
        mixed = weights @ images
        if self.mixing != 1:
            mixed = mixed + (self.mixing - 1) * (weights @ residuals)
        return mixed.squeeze(1), (images, residuals)

    def weights(self, residuals: Float[Tensor, "batch memory size"]) -> Float[Tensor, "batch memory"]:
        """α of every sample, or the newest alone where it cannot be had to useful accuracy."""
        eps = torch.finfo(residuals.dtype).eps
        gram = residuals @ residuals.transpose(1, 2)
        identity = torch.eye(self.memory, dtype=gram.dtype, device=gram.device)
        square = (gram * identity).sum(2)
        least = max(self.ridge, eps)
        return rules.anderson_weights(
            gram,
            square,
            identity,
            identity[0],
            self.ridge,
            eps,
            lambda system, right: solve_positive(system, right, least),
        )


def steps_of(solver: Solver[Any]) -> Steps:
    """The exportable form of a solver."""
    match solver:
        case Anderson():
            return AndersonSteps(solver.memory, solver.mixing, solver.ridge)
        case Picard():
            return PicardSteps(solver.damping)
    raise OptionError(
        f"export knows the solvers Anderson and Picard: got {type(solver).__name__}; set layer.solver to one "
        "of them, the equilibrium is the same"
    )


@dataclass(frozen=True)
class Measured:
    """Result of a solve: the best state of every sample, its residual, and the evaluations."""

    value: Float[Tensor, "batch size"]
    residual: Float[Tensor, " batch"]
    steps: Int[Tensor, " batch"]


def residual_norms(
    residual: Float[Tensor, "batch size"], fz: Float[Tensor, "batch size"]
) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
    """‖f(z) − z‖ and ‖f(z)‖ of each sample."""
    image = rules.row_norm(fz)
    return rules.finite_or_nan(rules.row_norm(residual), image), image


def find_fixed_point(
    fn: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    start: Float[Tensor, "batch size"],
    solver: Steps,
    tolerance: Float[Tensor, ""],
    max_steps: Int[Tensor, ""],
) -> Measured:
    """Solve z = fn(z, *inputs); ``inputs`` are all tensors that fn uses."""
    memory = solver.init(start)

    def unfinished(
        count: Tensor, z: Tensor, best: Tensor, least: Tensor, active: Tensor, *rest: Tensor
    ) -> Tensor:
        max_steps = rest[3 + len(memory) + 1]
        return active.any() & (count < max_steps)

    def advance(
        count: Tensor, z: Tensor, best: Tensor, least: Tensor, active: Tensor, *rest: Tensor
    ) -> tuple[Tensor, ...]:
        steps, limit, floor, *kept = rest[: 3 + len(memory)]
        tolerance, _, *given = rest[3 + len(memory) :]
        fz = fn(z, *given)
        residual = fz - z
        absolute, image = residual_norms(residual, fz)
        limit = torch.where(count == 0, rules.divergence_limit(absolute), limit)
        floor = torch.where(count == 0, rules.residual_floor(absolute, tolerance), floor)
        relative = rules.relative_residual(absolute, image, floor)

        improved = active & (relative < least)
        best = torch.where(improved.unsqueeze(1), z, best)
        least = torch.where(improved, relative, least)
        steps = steps + active.to(steps.dtype)
        active = active & rules.within(absolute, limit) & (relative > tolerance)
        following, changed = solver.step(z, fz, residual, tuple(kept))
        z = torch.where(active.unsqueeze(1), following, best)
        return count + 1, z, best, least, active, steps, limit, floor, *changed

    batch = start[:, 0]
    carried = (
        torch.zeros_like(max_steps),
        start,
        start.clone(),
        torch.full_like(batch, math.inf),
        torch.ones_like(batch, dtype=torch.bool),
        torch.zeros_like(batch, dtype=torch.int64),
        torch.zeros_like(batch),
        torch.zeros_like(batch),
        *memory,
    )
    # The operator itself: its usual front end would compile the body, which needs no compiler to be traced.
    end = torch.ops.higher_order.while_loop(unfinished, advance, carried, (tolerance, max_steps, *inputs))
    return Measured(end[2], end[3], end[5])
