"""The reversible iteration: differentiated through, at a memory that does not grow with its steps."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from geq.cells.base import State, parts_of
from geq.errors import ConvergenceError, ConvergenceWarning, GradientError, OptionError, unknown_name
from geq.gradients.base import Record
from geq.gradients.unrolled import Iterated
from geq.solvers import Solution, Status
from geq.solvers.fixed_point import ON_FAILURE, Packing

Parts = tuple[Tensor, ...]


@dataclass(frozen=True)
class Reversible(Iterated):
    """The layer *is* ``steps`` reversible iterations of a pair of states (McCallum et al. 2025, 2509.12917):

        y ← (1 − β)y + β T(z),  z ← (1 − β)z + β T(y),  from y = z = the initial state; the output is z.

    As one sequence y_0, z_0, y_1, z_1, …: w_{k+2} = (1 − β)w_k + β T(w_{k+1}), which is undone from its end
    by w_k = (w_{k+2} − β T(w_{k+1}))/(1 − β). So autograd differentiates through the iterations, as for
    :class:`Unrolled`, but what it needs of each evaluation is recomputed in backward: four states are kept,
    and what one evaluation saves. Per step only the nodes of the graph remain, without their tensors (a few
    kB, whatever the size of the state). Backward costs 2·``steps`` evaluations more than that of
    :class:`Unrolled`. It can be differentiated again.

    **Rounding.** Undoing a step divides by 1 − β: a rounding error grows by the factor |1 − β|^(−steps) if T
    is constant along it, and by |1 − β|^(−2·steps) if its Jacobian has an eigenvalue near ±1. So the states
    are kept in double precision (T is evaluated in its own), and the pair is compared with the initial state
    when backward arrives there: ``last_adjoint.residual`` of the layer is ‖w̃_1 − z_0‖/‖z‖ of each sample, the
    largest error of the states that were recomputed, as a rule. The gradient's error is far smaller, since
    early states have little influence on the last.

    Args:
        steps: Iterations, each of two evaluations.
        beta: β in (0, 2) without 1. An eigenvalue of T's Jacobian of 0 is damped by |1 − β| per step.
        tol: Largest relative error of the recomputed states; the constructor refuses a β and ``steps`` whose
            smallest amplification already takes double precision beyond it.
        on_failure: "raise", "warn" (default) or "ignore" when a recomputed state misses ``tol``.
    """

    steps: int = 10
    beta: float = 0.8
    tol: float = field(default=1e-3, kw_only=True)
    on_failure: str = field(default="warn", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.beta < 2 or self.beta == 1:
            raise OptionError(
                f"Reversible: beta must lie in (0, 1) or (1, 2), since reversing divides by 1 − beta: got "
                f"{self.beta}; 0.5 and 0.8 are usual"
            )
        if not 0 < self.tol < 1:
            raise OptionError(f"Reversible: tol must lie in (0, 1): got {self.tol}; 1e-3 is usual")
        if self.on_failure not in ON_FAILURE:
            raise unknown_name("value of on_failure", self.on_failure, ON_FAILURE)
        self.check_rounding(torch.float64)

    @property
    def evaluations(self) -> int:
        return 2 * self.steps

    def amplified(self, dtype: torch.dtype) -> float:
        """Return the least relative error of the initial state when it is recomputed in this precision."""
        try:
            return torch.finfo(dtype).eps / 2 / math.pow(abs(1 - self.beta), self.steps)
        except (OverflowError, ZeroDivisionError):
            return math.inf

    def check_rounding(self, dtype: torch.dtype) -> None:
        """Refuse steps that cannot be undone in this precision."""
        error = self.amplified(dtype)
        if error > self.tol:
            least = (torch.finfo(dtype).eps / 2 / self.tol) ** (1 / self.steps)
            raise OptionError(
                f"Reversible: rounding must stay below tol = {self.tol:.0e} when the iterations are undone: "
                f"beta = {self.beta:g} multiplies it by |1 − beta|^−{self.steps}, to {error:.1e} in {dtype}; "
                f"take beta at most {1 - least:.2g} for {self.steps} steps, fewer steps, or Unrolled"
            )

    def trajectory(self, fn: Callable[[Any], Any], z: State) -> Iterator[State]:
        """Yield z after each step; their graph keeps every evaluation, unlike that of the layer."""
        run = _Run(self, fn, z, None)
        pair = run.pair
        for index in range(self.evaluations):
            pair = run.advance(pair, fn(run.narrow(pair[1])))
            if index % 2:
                yield run.narrow(pair[1])

    def iterate(self, fn: Callable[[Any], Any], z: State, record: Record | None = None) -> State:
        run = _Run(self, fn, z, record)
        pair = run.pair
        for index in range(self.evaluations):
            pair = run.advance(pair, run.evaluate(index, run.narrow(pair[1])))
        run.finish(pair)
        return run.narrow(pair[1])


class _Run:
    """One run of the iterations, which recomputes in backward what its evaluations saved for autograd.

    Evaluation k is T(w_{k+1}). Its saved tensors are packed as (k, number); when autograd asks for one, the
    pair (w_k, w_{k+1}) is recovered by undoing steps, evaluation k is repeated, and its tensors are kept
    until those of another one are wanted. Autograd goes from the last evaluation to the first, so that every
    one is repeated once.
    """

    def __init__(
        self, gradient: Reversible, fn: Callable[[Any], Any], start: State, record: Record | None
    ) -> None:
        self.gradient, self.fn, self.record = gradient, fn, record
        self.is_tuple = isinstance(start, tuple)
        self.dtypes = [part.dtype for part in parts_of(start)]
        parts = tuple(part.to(_wide(part)) for part in parts_of(start))
        gradient.check_rounding(parts[0].dtype)
        self.start = tuple(part.detach() for part in parts)
        self.pair: tuple[Parts, Parts] = (parts, parts)
        self.differentiated: list[list[bool]] = []
        """Which parts of the state required grad, for each evaluation: what autograd saves depends on it."""
        self.index, self.saved = -1, list[Tensor]()
        self.last = self.pair
        self.position = 0
        """The pair is (w_position, w_{position+1}), once the iterations are over."""

    def narrow(self, parts: Parts) -> State:
        """Return a state in the precision of the map."""
        state = tuple(part.to(dtype) for part, dtype in zip(parts, self.dtypes, strict=True))
        return state if self.is_tuple else state[0]

    def advance(self, pair: tuple[Parts, Parts], image: State) -> tuple[Parts, Parts]:
        """Return (w_{k+1}, w_{k+2}) from (w_k, w_{k+1}) and T(w_{k+1})."""
        older, newer = pair
        beta = self.gradient.beta
        return newer, tuple(
            old.lerp(new.to(old.dtype), beta) for old, new in zip(older, parts_of(image), strict=True)
        )

    def evaluate(self, index: int, state: State) -> State:
        """Return T(state), so that what autograd saves of it is recomputed."""
        if index == len(self.differentiated):
            self.differentiated.append([part.requires_grad for part in parts_of(state)])
        self.index, self.saved = index, []

        def pack(tensor: Tensor) -> tuple[int, int]:
            self.saved.append(tensor.detach())
            return index, len(self.saved) - 1

        with torch.autograd.graph.saved_tensors_hooks(pack, self.unpack):
            image: State = self.fn(state)
        return image

    def finish(self, pair: tuple[Parts, Parts]) -> None:
        """Keep the last pair, and none of the evaluations."""
        self.index, self.saved = -1, []
        self.last = tuple(tuple(part.detach() for part in parts) for parts in pair)  # type: ignore[assignment]
        self.pair, self.position = self.last, self.gradient.evaluations

    def unpack(self, key: tuple[int, int]) -> Tensor:
        index, number = key
        if index != self.index:
            if index >= self.position:  # a second backward
                self.pair, self.position = self.last, self.gradient.evaluations
            # As in forward: autocast must not round what is recomputed.
            with torch.autocast(self.last[0][0].device.type, enabled=False):
                while self.position > index:
                    self.undo()
        if number >= len(self.saved):
            raise GradientError(
                "a cell must do the same when it is evaluated again: a repeated evaluation saved "
                f"{len(self.saved)} tensors for autograd, and number {number} was asked for; remove what "
                "depends on anything but the state, or use gradient=Unrolled(steps)"
            )
        return self.saved[number]

    def undo(self) -> None:
        """Step back by one evaluation, and keep what autograd saves of it."""
        newer, newest = self.pair
        index = self.position - 1
        if index == 0:
            self.report(newer)
            newer = self.start
        flags = zip(parts_of(self.narrow(newer)), self.differentiated[index], strict=True)
        parts = tuple(part.detach().requires_grad_(flag) for part, flag in flags)
        with torch.enable_grad():
            image = self.evaluate(index, parts if self.is_tuple else parts[0])
        beta = self.gradient.beta
        with torch.no_grad():
            older = tuple(
                (last - beta * new.to(last.dtype)) / (1 - beta)
                for last, new in zip(newest, parts_of(image), strict=True)
            )
        self.pair, self.position = (older, newer), index

    @torch.no_grad()
    def report(self, found: Parts) -> None:
        """Compare the recomputed initial state with the one that the iterations began at."""
        packing = Packing.of(self.start)
        error, *sizes = (
            torch.linalg.vector_norm(packing.pack(parts), dim=1)
            for parts in (
                tuple(one - other for one, other in zip(found, self.start, strict=True)),
                self.start,
                self.last[1],
            )
        )
        size = torch.maximum(*sizes)
        residual = torch.where(error == 0, 0.0, error / size).nan_to_num(nan=torch.inf)
        gradient = self.gradient
        converged = residual <= gradient.tol
        status = Status.CONVERGED if bool(converged.all()) else Status.DIVERGED
        steps = torch.full_like(residual, gradient.evaluations, dtype=torch.int64)
        solution = Solution(residual.new_empty(0), residual, converged, steps, status)
        if self.record is not None:
            self.record(solution)
        if status is Status.CONVERGED or gradient.on_failure == "ignore":
            return
        message = (
            f"Reversible must recompute the initial state to a relative error of {gradient.tol:.1e}: "
            f"{int((~converged).sum())} of {converged.numel()} samples are off by up to "
            f"{float(residual.max()):.1e}, because undoing {gradient.steps} steps with beta = "
            f"{gradient.beta:g} amplifies rounding (or the cell is not the same function twice); take a "
            "smaller beta, fewer steps, or Unrolled"
        )
        if gradient.on_failure == "raise":
            raise ConvergenceError(message, solution)
        warnings.warn(message, ConvergenceWarning, stacklevel=2)


def _wide(part: Tensor) -> torch.dtype:
    """Return the precision in which a state is kept: double, where the device has it."""
    return part.dtype if part.device.type == "mps" else torch.float64
