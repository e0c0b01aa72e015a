"""Plain differentiation through the iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from geq.cells.base import Equation, State, parts_of
from geq.errors import ConvergenceError, OptionError
from geq.gradients.base import Find, Gradient, Record
from geq.solvers import Picard, Solution, fixed_point


@dataclass(frozen=True)
class Unrolled(Gradient):
    """The layer *is* ``steps`` damped iterations from the initial state, and autograd differentiates through
    them.

    Memory grows with ``steps``. The only gradient that can be differentiated again. The solver of the layer
    is not used: its output, in training and in evaluation, is the last iterate.

    Args:
        steps: Iterations, at least 1.
        damping: In (0, 1]; z ← (1 − damping)z + damping·T(z).
    """

    steps: int = 20
    damping: float = 1.0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise OptionError(f"{type(self).__name__}: steps must be at least 1: got {self.steps}")
        if not 0 < self.damping <= 1:
            raise OptionError(f"{type(self).__name__}: damping must lie in (0, 1]: got {self.damping}")

    @property
    def iterations(self) -> int | None:
        return self.steps

    def run(self, equation: Equation, find: Find, tol: float, record: Record | None = None) -> Solution:
        z = self.iterate(equation, equation.start())
        with torch.no_grad():
            # One more evaluation measures the residual; a function, because nothing may replace the map.
            end = fixed_point(equation.__call__, z, Picard(), tol=tol, max_steps=1, on_failure="ignore")
        return replace(end, value=z, steps=torch.full_like(end.steps, self.steps))

    def iterate(self, fn: Callable[[Any], Any], z: State) -> State:
        """Return the state after all steps, with their graph."""
        for following in self.trajectory(fn, z):
            z = following
        if not all(bool(torch.isfinite(part).all()) for part in parts_of(z)):
            raise ConvergenceError(
                f"the {self.steps} unrolled iterations must stay finite: they became NaN or infinite; "
                "bound the norm of the weights, damp the iteration, or unroll fewer steps"
            )
        return z

    def trajectory(self, fn: Callable[[Any], Any], z: State) -> Iterator[State]:
        """Yield the state after each step."""
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
