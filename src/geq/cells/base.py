"""A cell is the map z <- T(z; c) whose fixed points are the layer's output."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from geq.certificate import WellPosedness
from geq.errors import CheckedOptions
from geq.operators.operator import Size

State = Tensor | tuple[Tensor, ...]


class Cell(nn.Module, metaclass=CheckedOptions):
    """Base class. A cell of one's own gives ``forward(z, c)`` and, where x is not the context, ``inject``.

    States are tensors, or tuples of tensors (multi-scale models), with the batch first.

    >>> class Affine(Cell):
    ...     def forward(self, z, c):
    ...         return 0.5 * z + c
    >>> cell = Affine()
    >>> cell(torch.ones(1, 2), cell.inject(torch.ones(1, 2)))
    tensor([[1.5000, 1.5000]])
    """

    couples_samples: bool = False
    """Whether T looks at the whole batch, so that the samples' equations must be solved together."""

    def inject(self, x: Any) -> Any:
        """The context c: everything that depends on the input only, computed once per solve."""
        return x

    def initial_state(self, c: Any) -> State:
        """Where a solve starts; zeros like the context unless overridden."""
        return torch.zeros_like(c)

    @abstractmethod
    def forward(self, z: Any, c: Any) -> State: ...

    def settled(self, z: Any, c: Any) -> None:
        """Called with the equilibrium of each training solve: for statistics that a cell keeps."""

    def at(self, c: Any) -> StationaryMap:
        """The map of the state alone, for one context."""
        return StationaryMap(self, c)

    def well_posedness(self, size: Size | None = None) -> WellPosedness:
        """What is proved about the fixed points; for a cell that does not say, nothing.

        Args:
            size: height and width of the maps, which the norm of a convolution depends on.
        """
        return WellPosedness()


class StationaryMap:
    """z ↦ T(z; c) for one c: what solvers and gradients work on."""

    def __init__(self, cell: Cell, context: Any) -> None:
        self.cell, self.context = cell, context

    def __call__(self, z: State) -> State:
        return self.cell(z, self.context)

    def start(self, z0: State | None) -> State:
        """Where a solve starts: at ``z0``, or at the cell's initial state."""
        return self.cell.initial_state(self.context) if z0 is None else z0

    def state(self, z: State) -> State:
        """The cell's state, from what a solver worked on."""
        return z


class JointMap(StationaryMap):
    """The map of a cell that couples samples, as solvers must see it: the batch is one sample.

    Solvers stop every sample by its own residual. Where a sample depends on the others, one that stopped
    would not follow them any more.
    """

    def __call__(self, z: State) -> State:
        return joined(super().__call__(self.state(z)))

    def start(self, z0: State | None) -> State:
        return joined(super().start(z0))

    def state(self, z: State) -> State:
        return tuple(part[0] for part in z) if isinstance(z, tuple) else z[0]


def joined(z: State) -> State:
    return tuple(part[None] for part in z) if isinstance(z, tuple) else z[None]
