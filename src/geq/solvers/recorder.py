"""An equation that remembers the states of a solve."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from geq.cells.base import Equation, State


class Recorder(Equation):
    """A prepared equation that remembers the image of every state that a solver asks for.

    Args:
        prepared: What the solver iterates on.
        points: Where the images are kept.
        at: Numbers of the evaluations to keep, from 1; None keeps all.
    """

    def __init__(self, prepared: Equation, points: list[State], at: Container[int] | None = None) -> None:
        self.prepared, self.points, self.at = prepared, points, at
        self.count = 0
        self.tolerance_factor = prepared.tolerance_factor
        self.couples_samples = prepared.couples_samples

    def start(self) -> State:
        return self.prepared.start()

    def state(self, u: State) -> State:
        return self.prepared.state(u)

    def proximal(self, step: float) -> Equation:
        return self

    def __call__(self, u: Any) -> State:
        value = self.prepared(u)
        self.count += 1
        if self.at is None or self.count in self.at:
            self.points.append(self.prepared.image(u))
        return value

    def reduced(self) -> Equation:
        return self  # prepared already
