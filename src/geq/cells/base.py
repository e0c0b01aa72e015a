"""Cells and equations: which equation z = T(z; x) a state must satisfy, and that equation for one input."""

from __future__ import annotations

import contextlib
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from geq.cells.linearisation import AutogradLinearisation, Linearisation
from geq.cells.stateful import (
    ComputedOnce,
    SameRandomNumbers,
    couples,
    modules_of,
    norms,
    not_tracked,
    used,
)
from geq.certificates.well_posedness import WellPosedness
from geq.errors import CheckedOptions, InputError, OptionError, check_kind, one_line
from geq.operators.operator import Size

State = Tensor | tuple[Tensor, ...]
SIZES = re.compile(r"size of tensor|shapes cannot be multiplied|size mismatch|expected input")
"""Pieces of torch's messages about sizes of two tensors that do not fit."""


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
    """True if ``start`` is known to be zero: a solve need not check that it is finite."""

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
    """The equation of a cell, for the context c of one input: one map, whatever modules the cell has.

    See :mod:`geq.cells.stateful`. A state that the cell keeps in a dictionary is a tuple here.
    """

    def __init__(self, cell: Cell, context: Any) -> None:
        self.cell, self.context = cell, context
        self.couples_samples = cell.couples_samples
        self.z0: State | None = None
        self.keys: tuple[str, ...] | None = None
        self._random = SameRandomNumbers()
        modules = list(cell.mapped_modules())
        self._weights = ComputedOnce(modules)
        self._norms = norms(modules)
        if self._norms:
            with torch.no_grad(), contextlib.suppress(InputError):  # no start yet: it may be any of them
                # Those that belong to `inject` see an input only once.
                self._norms = used(self._norms, lambda: self(self.start()))
            self.couples_samples = cell.couples_samples or any(map(couples, self._norms))

    def __call__(self, u: Any) -> Any:
        with not_tracked(self._norms):
            return self.evaluate(u)

    def evaluate(self, u: Any) -> Any:
        """Return T(u); running statistics of norms move."""
        state = self.outside(u)
        try:
            with self._weights.in_use():
                image = self._random.evaluate(parts_of(u)[0].device, lambda: self.cell(state, self.context))
                return self.inside(image)
        except RuntimeError as problem:
            if type(problem) is RuntimeError and self.starts_like_context() and SIZES.search(str(problem)):
                shapes = [tuple(part.shape) for part in parts_of(u)]
                raise InputError(
                    f"{type(self.cell).__name__}.forward must take a state z of the shape it starts with, "
                    f"zeros like the context, {shapes[0]}: got '{one_line(problem)}'; for a state of another "
                    "size than x override initial_state(c), or return a context of its size from inject(x)"
                ) from problem
            raise

    def inside(self, state: Any) -> Any:
        """Return a state of the cell as solvers see it: a dictionary becomes a tuple."""
        if not isinstance(state, dict):
            return state
        if self.keys is None:
            self.keys = tuple(state)
        if set(state) != set(self.keys):
            raise InputError(
                f"a cell must return the parts that it is given: got a state of {', '.join(self.keys)}, "
                f"returned {', '.join(map(str, state))}"
            )
        return tuple(state[key] for key in self.keys)

    def outside(self, state: Any) -> Any:
        """Return a state as the cell keeps it."""
        return state if self.keys is None else dict(zip(self.keys, parts_of(state), strict=True))

    def starts_like_context(self) -> bool:
        """Return whether the cell leaves the shape of its state to the context."""
        return self.z0 is None and type(self.cell).initial_state in (
            Cell.initial_state,
            FunctionCell.initial_state,
        )

    def start(self) -> State:
        if self.z0 is not None:
            return self.z0
        state: State = self.inside(self.cell.initial_state(self.context))
        return state

    def start_at(self, z0: Any) -> None:
        """Start from a given state (a warm start), cast to the precision of the cell's own."""
        if self.cell.starts_anywhere:
            self.z0 = self.inside(z0)
            return
        start = self.inside(self.cell.initial_state(self.context))
        given = self.inside(z0)
        expected, came = [[tuple(p.shape) for p in parts_of(s)] for s in (start, given)]
        if expected != came:
            raise InputError(f"z0 must have the shape of the state, {expected}: got {came}")
        cast = [new.to(old.dtype) for new, old in zip(parts_of(given), parts_of(start), strict=True)]
        self.z0 = tuple(cast) if isinstance(start, tuple) else cast[0]

    def observe(self, z: Any) -> None:
        """Update running statistics, of the cell and of its norms, from the solution of a training solve."""
        if self._norms:
            self.evaluate(z)
        self.cell.observe(self.outside(z), self.context)


class Cell(nn.Module, metaclass=CheckedOptions):
    """Base class. A custom cell gives ``forward(z, c)`` and, where x is not the context, ``inject``.

    States are tensors, or tuples or dictionaries of tensors (multi-scale models), with the batch first. A
    cell may hold any module. Within one solve and its backward dropout keeps its mask, batch norm updates its
    running statistics once (and couples the samples, in training mode), and a weight under
    ``torch.nn.utils.parametrizations`` is computed once.

    >>> class Affine(Cell):
    ...     def forward(self, z, c):
    ...         return 0.5 * z + c
    >>> Affine().equation(torch.ones(1, 2))(torch.ones(1, 2))
    tensor([[1.5000, 1.5000]])
    """

    couples_samples: bool = False
    """Whether T looks at the whole batch, so that the samples' equations must be solved together."""

    starts_anywhere: bool = False
    """True if a solve may start at a state of any shape, because the cell has none of its own."""

    def mapped_modules(self) -> Iterable[nn.Module]:
        """Return the modules that ``forward`` may use; all of the cell unless overridden."""
        return self.modules()

    def inject(self, x: Any) -> Any:
        """Return the context c: everything that depends on the input only, computed once per solve."""
        return x

    def initial_state(self, c: Any) -> Any:
        """Return where a solve starts; zeros like the context unless overridden."""
        return torch.zeros_like(c)

    @abstractmethod
    def forward(self, z: Any, c: Any) -> Any:
        """Return T(z; c)."""

    def observe(self, z: Any, c: Any) -> None:
        """Update running statistics; called with the equilibrium of each training solve."""

    def equation(self, x: Any) -> CellEquation:
        """Return the equation for one input."""
        with parametrize.cached():  # a weight that is in `inject` as well is computed once
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
    """A plain function or module of (z, x) as a cell; starts at zeros like x, or at ``layer(x, z0=…)``.

    >>> cell = as_cell(lambda z, x: 0.5 * z + x)
    >>> cell.equation(torch.ones(1, 2))(torch.ones(1, 2))
    tensor([[1.5000, 1.5000]])
    """

    starts_anywhere = True

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.function = function

    def mapped_modules(self) -> Iterable[nn.Module]:
        return modules_of(self.function)

    def initial_state(self, c: Any) -> Any:
        if isinstance(c, Tensor):
            return torch.zeros_like(c)
        if isinstance(c, tuple) and all(isinstance(part, Tensor) for part in c):
            return tuple(map(torch.zeros_like, c))
        if isinstance(c, dict) and all(isinstance(part, Tensor) for part in c.values()):
            return {key: torch.zeros_like(part) for key, part in c.items()}
        raise InputError(
            f"a function as a cell starts at zeros like x, which must be tensors: got {type(c).__name__}; "
            "give the start, layer(x, z0=...), or a geq.Cell with initial_state"
        )

    def forward(self, z: Any, c: Any) -> Any:
        return self.function(z, c)


def as_cell(cell: Cell | Callable[[Any, Any], Any]) -> Cell:
    """Return a cell as it is, and a function or module of (z, x) as a :class:`FunctionCell`."""
    if isinstance(cell, Cell):
        return cell
    if callable(cell) and not isinstance(cell, type):
        return FunctionCell(cell)
    check_kind("cell", cell, Cell, "geq.EnergyProblem(kernel, W, U), or a function of (z, x)")
    raise AssertionError("a cell was refused as if it were none")
