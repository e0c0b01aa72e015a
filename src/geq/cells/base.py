"""Cells and equations: which equation z = T(z; x) a state must satisfy, and that equation for one input."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from geq.cells.linearisation import AutogradLinearisation, Linearisation
from geq.certificates.well_posedness import WellPosedness
from geq.errors import CheckedOptions, InputError, OptionError, check_kind, one_line
from geq.operators.operator import Size

State = Tensor | tuple[Tensor, ...]
SIZES = re.compile(r"size of tensor|shapes cannot be multiplied|size mismatch|expected input")
"""What torch says where the sizes of two tensors do not fit."""


def parts_of(state: State) -> tuple[Tensor, ...]:
    return state if isinstance(state, tuple) else (state,)


def detached(state: State) -> State:
    """Return a state without its graph: the same tensors where they have none."""
    parts = tuple(part.detach() if part.requires_grad else part for part in parts_of(state))
    return parts if isinstance(state, tuple) else parts[0]


class Equation:
    """z = T(z) for one input: all that solvers and gradients see.

    What a solver iterates on may differ from the state (see :meth:`reduced` and :meth:`state`).

    Args:
        function: T.
        z0: Where a solve starts; None where the solve is told.
    """

    tolerance_factor = 1.0
    """Relative residual of what is iterated that bounds the state's by 1."""
    couples_samples = False
    """Whether T looks at the whole batch, so that the samples' equations must be solved together."""
    starts_at_zero = False
    """Whether ``start`` is known to be zero, so that nobody has to look whether it is finite."""

    def __init__(self, function: Callable[[Any], Any], z0: State | None = None) -> None:
        self.function, self.z0 = function, z0

    def __call__(self, u: Any) -> Any:
        return self.function(u)

    def start(self) -> State:
        """Return where a solve starts."""
        if self.z0 is None:
            raise InputError("a solve needs a start: got none; give z0 with the equation or to fixed_point")
        return self.z0

    def state(self, u: State) -> State:
        """Return the state, from what a solver iterated on."""
        return u

    def image(self, u: Any) -> State:
        """Return T at the state that the solver's iterate u stands for, as a state."""
        return self(u)

    def reduced(self) -> Equation:
        """Return an equivalent equation in fewer unknowns, where one is known; otherwise this one."""
        return self

    def proximal(self, step: float) -> Equation:
        """Return the equation of a proximal step, where T comes from an energy."""
        raise OptionError(
            "a proximal step needs an equation that comes from an energy: got a map without one; use Picard, "
            "Anderson or Broyden for a plain map"
        )

    def linearise(self, z: Any) -> Linearisation:
        """Return the derivatives of T at z; here by autograd."""
        return AutogradLinearisation(self, z)

    def observe(self, z: Any) -> None:
        """Update running statistics from the solution z of a training solve."""


class CellEquation(Equation):
    """The equation of a cell, for the context c of one input."""

    def __init__(self, cell: Cell, context: Any) -> None:
        self.cell, self.context = cell, context
        self.couples_samples = cell.couples_samples
        self.z0: State | None = None

    def __call__(self, u: Any) -> Any:
        try:
            return self.cell(u, self.context)
        except RuntimeError as problem:
            if type(problem) is RuntimeError and self.starts_like_context() and SIZES.search(str(problem)):
                shapes = [tuple(part.shape) for part in parts_of(u)]
                raise InputError(
                    f"{type(self.cell).__name__}.forward must take a state z of the shape it starts with, "
                    f"zeros like the context, {shapes[0]}: got '{one_line(problem)}'; for a state of another "
                    "size than x override initial_state(c), or return a context of its size from inject(x)"
                ) from problem
            raise

    def starts_like_context(self) -> bool:
        """Return whether the cell leaves the shape of its state to the context."""
        return self.z0 is None and type(self.cell).initial_state is Cell.initial_state

    def start(self) -> State:
        return self.cell.initial_state(self.context) if self.z0 is None else self.z0

    def start_at(self, z0: State) -> None:
        """Start from a given state (a warm start), cast to the precision of the cell's own."""
        start = self.cell.initial_state(self.context)
        expected, came = [[tuple(p.shape) for p in parts_of(s)] for s in (start, z0)]
        if expected != came:
            raise InputError(f"z0 must have the shape of the state, {expected}: got {came}")
        cast = [new.to(old.dtype) for new, old in zip(parts_of(z0), parts_of(start), strict=True)]
        self.z0 = tuple(cast) if isinstance(start, tuple) else cast[0]

    def observe(self, z: Any) -> None:
        self.cell.observe(z, self.context)


class Cell(nn.Module, metaclass=CheckedOptions):
    """Base class. A custom cell gives ``forward(z, c)`` and, where x is not the context, ``inject``.

    States are tensors, or tuples of tensors (multi-scale models), with the batch first.

    >>> class Affine(Cell):
    ...     def forward(self, z, c):
    ...         return 0.5 * z + c
    >>> Affine().equation(torch.ones(1, 2))(torch.ones(1, 2))
    tensor([[1.5000, 1.5000]])
    """

    couples_samples: bool = False
    """Whether T looks at the whole batch, so that the samples' equations must be solved together."""

    def inject(self, x: Any) -> Any:
        """Return the context c: everything that depends on the input only, computed once per solve."""
        return x

    def initial_state(self, c: Any) -> State:
        """Return where a solve starts; zeros like the context unless overridden."""
        return torch.zeros_like(c)

    @abstractmethod
    def forward(self, z: Any, c: Any) -> State:
        """Return T(z; c)."""

    def observe(self, z: Any, c: Any) -> None:
        """Update running statistics; called with the equilibrium of each training solve."""

    def equation(self, x: Any) -> CellEquation:
        """Return the equation for one input."""
        return CellEquation(self, self.inject(x))

    def well_posedness(self, size: Size | None = None) -> WellPosedness:
        """Return what is proved about the fixed points; for a cell that does not say, nothing.

        Args:
            size: Height and width of the maps, which the norm of a convolution depends on.
        """
        return WellPosedness()

    def contraction_rate(self, certificate: WellPosedness) -> float | None:
        """Return a Lipschitz constant of T, below 1; None where the certificate proves none."""
        return certificate.rate if certificate.contraction else None


class FunctionCell(Cell):
    """A plain function or module of (z, x) as a cell; a solve starts at zeros like x.

    >>> cell = as_cell(lambda z, x: 0.5 * z + x)
    >>> cell.equation(torch.ones(1, 2))(torch.ones(1, 2))
    tensor([[1.5000, 1.5000]])
    """

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, z: Any, c: Any) -> State:
        image: State = self.function(z, c)
        return image


def as_cell(cell: Cell | Callable[[Any, Any], Any]) -> Cell:
    """Return a cell as it is, and a function or module of (z, x) as a :class:`FunctionCell`."""
    if isinstance(cell, Cell):
        return cell
    if callable(cell) and not isinstance(cell, type):
        return FunctionCell(cell)
    check_kind("cell", cell, Cell, "geq.EnergyProblem(kernel, W, U), or a function of (z, x)")
    raise AssertionError("a cell was refused as if it were none")
