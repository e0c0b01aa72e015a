"""The loop of :func:`~geq.solvers.fixed_point.fixed_point` as one ``while_loop``, for export.

The rules are those of :mod:`geq.solvers.rules`: a sample that has converged or diverged is held at its best
state, everything else is per sample. What differs is the arithmetic of a step: nothing is changed in place,
and Anderson's system is solved by :func:`~geq.export.iteration.solve_positive`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.export.graph_signature import InputKind

from geq.cells.base import State, parts_of
from geq.errors import OptionError
from geq.export.cell_maps import Context, PlainMap
from geq.solvers import Anderson, Picard, Solver, rules

BATCH = 2
"""Images of the batch that is traced; anything but 1, which the tracer takes for a constant."""


class TracedMap(nn.Module):
    """A map as a graph of tensor operations; :meth:`evaluate` takes its weights as arguments.

    The body of a ``while_loop`` can neither reach tensors outside nor call modules. So ``plain`` is traced by
    itself first, for any batch, and its graph is then run operation by operation. ``forward`` is that of
    ``plain``.

    Args:
        plain: the map.
        z, context: an example.
    """

    def __init__(self, plain: PlainMap, z: State, context: Context) -> None:
        super().__init__()
        self.plain = plain
        batch = torch.export.Dim("batch")
        by_sample = [{0: batch} if part.dim() else None for part in context]
        of_state: Any = tuple({0: batch} for _ in parts_of(z))
        shapes = (of_state if isinstance(z, tuple) else of_state[0], tuple(by_sample))
        with torch.no_grad():
            program = torch.export.export(plain, (z, context), dynamic_shapes=shapes, strict=False)
        self.graph = program.graph_module
        self.names: list[str] = []
        for spec in program.graph_signature.input_specs:
            if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
                assert spec.target is not None
                self.names.append(f"plain.{spec.target}")
            elif spec.kind is InputKind.CONSTANT_TENSOR:
                assert spec.target is not None
                name = f"constant_{len(self.names)}"
                self.register_buffer(name, program.constants[spec.target])
                self.names.append(name)

    def weights(self) -> tuple[Tensor, ...]:
        """Return the first argument of :meth:`evaluate`."""
        found: dict[str, Tensor] = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        return tuple(found[name] for name in self.names)

    def evaluate(self, weights: tuple[Tensor, ...], z: State, context: Context) -> State:
        result = torch.fx.Interpreter(self.graph).run(*weights, *parts_of(z), *context)
        return tuple(result) if isinstance(z, tuple) else result[0]


def solve_positive(
    system: Float[Tensor, "batch n n"], right: Float[Tensor, "batch n"], least_pivot: float
) -> Float[Tensor, "batch n"]:
    """The solution for symmetric matrices whose eigenvalues are at least ``least_pivot`` > 0.

    Gauss–Jordan elimination, unrolled over the n columns. It needs no exchange of rows: the pivots are Schur
    complements, so none is below the least eigenvalue. One that comes out smaller is rounding, and is raised
    to it.

    >>> solve_positive(torch.tensor([[[2.0, 1.0], [1.0, 2.0]]]), torch.tensor([[3.0, 3.0]]), 1.0)
    tensor([[1., 1.]])
    """
    n = int(system.shape[1])
    rows = torch.cat((system, right.unsqueeze(2)), 2)
    unit = torch.eye(n, dtype=system.dtype, device=system.device)
    for j in range(n):
        pivot_row = rows.narrow(1, j, 1)
        pivot_row = pivot_row / pivot_row.narrow(2, j, 1).clamp_min(least_pivot)
        # Row j becomes pivot_row; every other row loses its multiple of it.
        rows = rows - (rows.narrow(2, j, 1) - unit.narrow(1, j, 1)) * pivot_row
    return rows.select(2, n)


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
class SolvedState:
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
) -> SolvedState:
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
    return SolvedState(end[2], end[3], end[5])
