"""The layer: a cell, a solver and a gradient, joined."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from geq.bandwidth import statistics_paused, statistics_wanted
from geq.cells import Cell, CellEquation, EnergyProblem, Equation
from geq.cells.base import State, as_cell
from geq.certificates.well_posedness import WellPosedness
from geq.errors import CheckedOptions, GeqError, OptionError, check_kind, unknown_name
from geq.gradients import Gradient, Implicit
from geq.gradients.base import refuse_second_derivative, refuse_transforms
from geq.operators.operator import Size, size_of
from geq.solvers import Anderson, Solution, Solver, Status, fixed_point
from geq.solvers.fixed_point import ON_FAILURE

HALF = (torch.float16, torch.bfloat16)


class Equilibrium(nn.Module, metaclass=CheckedOptions):
    """``layer(x)`` is the fixed point of a cell, differentiable in training and in evaluation.

    Args:
        cell: An energy problem, any other cell, or a function of (z, x).
        solver: Finds the fixed point; default ``Anderson()``.
        gradient: Differentiates it; default ``Implicit()``, the exact gradient.
        tol: Relative residual to reach, per sample.
        max_steps: Most evaluations of the cell.
        on_failure: "raise", "warn" or "ignore" when a sample does not reach ``tol``. The default, None,
            returns the best iterate and warns once in training and once in evaluation;
            ``last_solution`` has the figures of every solve.

    >>> from geq.kernels import GaussianKernel
    >>> from geq.operators import Dense
    >>> problem = EnergyProblem(GaussianKernel(gamma=0.5), W=Dense(8, 4), U=Dense(3, 4, bias=True))
    >>> layer = Equilibrium(problem, tol=1e-6)
    >>> z = layer(torch.ones(2, 3))
    >>> z.shape, bool(layer.last_solution.converged.all())
    (torch.Size([2, 8]), True)
    """

    def __init__(
        self,
        cell: Cell | Callable[[Any, Any], Any],
        solver: Solver[Any] | None = None,
        gradient: Gradient | None = None,
        tol: float = 1e-4,
        max_steps: int = 50,
        on_failure: str | None = None,
    ) -> None:
        super().__init__()
        if on_failure is not None and on_failure not in ON_FAILURE:
            raise unknown_name("value of on_failure", on_failure, ON_FAILURE)
        if not tol > 0:
            raise OptionError(f"tol must be above 0: got {tol}; 1e-3 is usual for training")
        if max_steps < 1:
            raise OptionError(f"max_steps must be at least 1: got {max_steps}")
        self.cell = as_cell(cell)
        self.solver: Solver[Any] = Anderson() if solver is None else solver
        self.gradient: Gradient = Implicit() if gradient is None else gradient
        check_kind("solver", self.solver, Solver, "geq.solvers.Anderson()")
        check_kind("gradient", self.gradient, Gradient, "geq.gradients.Implicit()")
        self.tol, self.max_steps, self.on_failure = tol, max_steps, on_failure
        self.last_solution: Solution | None = None
        """Statistics of the last solve (its ``value`` is left empty, to hold no memory)."""
        self.last_adjoint: Solution | None = None
        """Statistics of the last backward, where the gradient solves a system."""
        self._warned: set[bool] = set()  # the modes, training or not, in which a failure was reported

    @property
    def problem(self) -> EnergyProblem:
        """The energy problem; a cell without an energy has none."""
        if not isinstance(self.cell, EnergyProblem):
            raise OptionError(f"{type(self.cell).__name__} has no energy: it is not an EnergyProblem")
        return self.cell

    def forward(self, x: Any, z0: State | None = None) -> Any:
        """Return the equilibrium for x, connected to the graph of x and of the parameters.

        Args:
            x: Input, batch first.
            z0: Where to start (a warm start, cast to the precision of the state); default the cell's initial
                state.
        """
        refuse_tracing()
        refuse_transforms(self.gradient)
        if torch.compiler.is_compiling():
            from geq.torch_compile import eager_forward

            return eager_forward(self, x, z0)
        return self.evaluate(x, z0)

    def evaluate(self, x: Any, z0: State | None = None) -> Any:
        """Return what ``forward`` returns, outside of ``torch.compile``."""
        with full_precision(x) as x:
            equation = self.equation(x, z0)
            z = self._run(equation).value
            if self.training and statistics_wanted():
                with torch.no_grad():
                    equation.observe(each(z, Tensor.detach))
            return like_input(z, x)

    @torch.no_grad()
    def solve(self, x: Any, z0: State | None = None, trace: bool = False) -> Solution:
        """Return the solution with residual, steps and status per sample, without gradient.

        Args:
            x: Input, batch first.
            z0: Where to start; default the cell's initial state.
            trace: Whether to keep every residual.
        """
        with full_precision(x) as x, statistics_paused():
            return self._run(self.equation(x, z0), trace)

    def energy(self, x: Any) -> Tensor:
        """Return G(z*; x), one number per sample.

        Its gradient in x and in the parameters is exact, although z* is held fixed: at a stationary point the
        part that goes through z* vanishes (envelope theorem). That of the second derivative does not, so it
        is refused, except for :class:`~geq.gradients.Unrolled`, where z* is the last iterate with its graph.
        """
        problem = self.problem
        with full_precision(x) as x:
            equation = problem.equation(x)
            if self.gradient.iterations is not None:
                return problem.energy(one_tensor(self._run(equation).value), equation.context)
            with torch.no_grad():
                # The image, because only a prox is sure to satisfy the constraints to the last digit.
                z = one_tensor(equation(self._run(equation).value))
            energy = problem.energy(z, equation.context)
            if energy.requires_grad:
                energy.register_hook(refuse_second_derivative)
            return energy

    @torch.no_grad()
    def attention(self, x: Any) -> Tensor:
        """Return β of every patch at the equilibrium (Gaussian kernels): ≈ 1 where the state explains the
        input, ≈ 0 for outliers.
        """
        problem = self.problem
        with full_precision(x) as x, statistics_paused():
            equation = problem.equation(x)
            return problem.attention(one_tensor(self._run(equation).value), equation.context)

    @torch.no_grad()
    def map_size(self, x: Any) -> Size | None:
        """Return height and width of the state for x; None for vectors."""
        with statistics_paused():
            return size_of(self.cell.equation(x).start())

    def well_posedness(self, size: Size | None = None) -> WellPosedness:
        """Return what the cell's weights prove: contraction, uniqueness, step sizes; None where nothing is.

        Args:
            size: Height and width of the maps. The norm of a convolution, and with it the certificate,
                depends on them; vectors have none.
        """
        return self.cell.well_posedness(size)

    def equation(self, x: Any, z0: State | None = None) -> CellEquation:
        """Return the cell's equation for x, starting at z0 where that is given."""
        equation = self.cell.equation(x)
        if z0 is not None:
            equation.start_at(z0)
        return equation

    def _run(self, equation: CellEquation, trace: bool = False) -> Solution:
        """Solve by way of the gradient, and remember how it went."""
        on_failure = self.on_failure
        if on_failure is None:
            on_failure = "ignore" if self.training in self._warned else "warn"

        def find(equation: Equation) -> Solution:
            return fixed_point(
                equation,
                None,
                self.solver,
                tol=self.tol,
                max_steps=self.max_steps,
                on_failure=on_failure,
                trace=trace,
            )

        def remember(solution: Solution) -> None:
            self.last_adjoint = solution

        solution = self.gradient.run(equation, find, self.tol, remember)
        if solution.status is not Status.CONVERGED and on_failure == "warn":
            self._warned.add(self.training)
        self.last_solution = replace(solution, value=solution.residual.new_empty(0))
        return solution

    def extra_repr(self) -> str:
        return f"solver={self.solver}, gradient={self.gradient}, tol={self.tol:g}, max_steps={self.max_steps}"


def refuse_tracing() -> None:
    """Refuse to be exported, except as what :func:`geq.export.portable` makes of a model."""
    if torch.compiler.is_exporting() or torch.jit.is_tracing():
        raise GeqError(
            "an equilibrium takes as many steps as its input needs, which torch.export, torch.onnx.export "
            "and torch.jit.trace cannot trace; export geq.export.portable(model, x), the same model with "
            "its loops as tensor operations"
        )


@contextlib.contextmanager
def full_precision(x: Any) -> Iterator[Any]:
    """Autocast off, and x in single precision if it was on; inference mode replaced by ``no_grad``.

    A fixed point to 1e-3 does not exist in bfloat16, whose own resolution is 4e-3. In inference mode nothing
    can be differentiated, not even a similarity in the state, which is what a derived cell does.
    """
    refuse_tracing()
    device = next((t.device.type for t in tensors_in(x)), "cpu")
    with contextlib.ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.no_grad())
            x = each(x, lambda t: t.clone() if t.is_inference() else t)
        if torch.is_autocast_enabled(device):
            stack.enter_context(torch.autocast(device, enabled=False))
            x = each(x, lambda t: t.float() if t.dtype in HALF else t)
        yield x


def each(x: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """x, with its tensors changed; x is a tensor, a tuple or list of them, or something of the cell's own."""
    if isinstance(x, (tuple, list)):
        return type(x)(change(t) if isinstance(t, Tensor) else t for t in x)
    return change(x) if isinstance(x, Tensor) else x


def like_input(z: State, x: Any) -> Any:
    """Return the state in the precision of a half-precision module's input; found in single precision."""
    dtype = next((t.dtype for t in tensors_in(x)), None)
    if dtype not in HALF:
        return z
    return each(z, lambda part: part.to(dtype))


def tensors_in(x: Any) -> list[Tensor]:
    return [t for t in (x if isinstance(x, (tuple, list)) else (x,)) if isinstance(t, Tensor)]


def one_tensor(z: State) -> Tensor:
    """Return the state of an energy problem, which is always one tensor."""
    assert isinstance(z, Tensor)
    return z


@contextlib.contextmanager
def ignore_failures(model: nn.Module) -> Iterator[None]:
    """Inside, equilibria of a model that miss their tolerance return their best iterate.

    For code that counts the failures itself, by :attr:`Equilibrium.last_solution`.
    """
    layers = [module for module in model.modules() if isinstance(module, Equilibrium)]
    before = [layer.on_failure for layer in layers]
    for layer in layers:
        layer.on_failure = "ignore"
    try:
        yield
    finally:
        for layer, value in zip(layers, before, strict=True):
            layer.on_failure = value
