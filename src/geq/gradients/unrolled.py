"""Plain differentiation through the iteration."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from geq.errors import ConvergenceError, OptionError
from geq.gradients.base import Gradient, Map
from geq.solvers.state import State, parts_of


@dataclass(frozen=True)
class Unrolled(Gradient):
    """The layer *is* ``steps`` damped iterations from the initial state, and autograd differentiates through
    them.

    Memory grows with ``steps``. The only gradient that can be differentiated again. The solver of the layer
    is not used: its output, in training and in evaluation, is the last iterate.

    Args:
        steps: iterations, at least 1.
        damping: in (0, 1]; z ← (1 − damping)z + damping·T(z).
    """

    steps: int = 20
    damping: float = 1.0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise OptionError(f"{type(self).__name__}: steps must be at least 1: got {self.steps}")
        if not 0 < self.damping <= 1:
            raise OptionError(f"{type(self).__name__}: damping must lie in (0, 1]: got {self.damping}")

    def iterate(self, fn: Map, z: State) -> State:
        """The state after all steps, with their graph."""
        for count in range(1, self.steps + 1):
            z = self.advance(fn, z, count)
        if not all(bool(torch.isfinite(part).all()) for part in parts_of(z)):
            raise ConvergenceError(
                f"the {self.steps} unrolled iterations must stay finite: they became NaN or infinite; "
                "bound the norm of the weights, damp the iteration, or unroll fewer steps"
            )
        return z

    def advance(self, fn: Map, z: State, count: int) -> State:
        """The state after step number ``count``, which begins at 1."""
        image = fn(z)
        if self.damping == 1:
            return image
        if isinstance(z, tuple):
            return tuple(old + self.damping * (new - old) for old, new in zip(z, image, strict=True))
        return z + self.damping * (image - z)
