"""The layer: a cell, a solver and a gradient, joined."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from geq.bandwidth import statistics_paused, statistics_wanted
from geq.cells import (
    Cell,
    ClosedFormCell,
    EnergyProblem,
    FeatureMap,
    JointMap,
    ProximalCell,
    ProximalMap,
    StationaryMap,
)
from geq.certificate import WellPosedness
from geq.errors import CheckedOptions, InputError, OptionError, unknown_name
from geq.gradients import Gradient, Implicit, Unrolled
from geq.gradients.base import Once
from geq.operators.operator import Size, size_of
from geq.solvers import FISTA, Anderson, Picard, ProximalGradient, Solution, Solver, fixed_point
from geq.solvers.fixed_point import ON_FAILURE
from geq.solvers.state import Packing, State, parts_of

HALF = (torch.float16, torch.bfloat16)


class Equilibrium(nn.Module, metaclass=CheckedOptions):
    """``layer(x)`` is the fixed point of a cell, differentiable in training and in evaluation.

    Args:
        problem: a hidden problem, or a cell of one's own.
        solver: how the fixed point is found; default ``Anderson()``.
        gradient: how it is differentiated; default ``Implicit()``, the exact gradient.
        tol: relative residual to reach, per sample.
        max_steps: most evaluations of the cell.
        on_failure: "raise", "warn" or "ignore" when a sample does not reach ``tol``. The default, None,
            raises in evaluation; in training, where one bad batch must not end a run, it goes on with the
            best iterate, and ``last_solution`` tells.

    >>> from geq.kernels import GaussianKernel
    >>> from geq.operators import Dense
    >>> problem = EnergyProblem(Gaussian(gamma=0.5), W=Dense(8, 4), U=Dense(3, 4, bias=True))
    >>> layer = Equilibrium(problem, tol=1e-6)
    >>> z = layer(torch.ones(2, 3))
    >>> z.shape, bool(layer.last_solution.converged.all())
    (torch.Size([2, 8]), True)
    """

    def __init__(
        self,
        problem: EnergyProblem | Cell,
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
        self.cell: Cell = ClosedFormCell(problem) if isinstance(problem, EnergyProblem) else problem
        self.solver: Solver[Any] = Anderson() if solver is None else solver
        self.gradient: Gradient = Implicit() if gradient is None else gradient
        self.tol, self.max_steps, self.on_failure = tol, max_steps, on_failure
        self.last_solution: Solution | None = None
        """Statistics of the last solve (its ``value`` is left empty, to hold no memory)."""
        self.last_adjoint: Solution | None = None
        """Statistics of the last backward, where the gradient solves a system."""

    @property
    def problem(self) -> EnergyProblem:
        """The hidden problem; a cell of one's own has none."""
        if not isinstance(self.cell, ProximalCell):
            raise OptionError(
                f"{type(self.cell).__name__} has no energy: it was not made from a EnergyProblem"
            )
        return self.cell.problem

    def forward(self, x: Any, z0: State | None = None) -> Any:
        """The equilibrium for x, connected to the graph of x and of the parameters.

        Args:
            x: input, batch first.
            z0: where to start (a warm start, cast to the precision of the state); default the cell's initial
                state.
        """
        if torch.compiler.is_compiling():
            from geq.compiled import eager_forward

            return eager_forward(self, x, z0)
        return self.evaluate(x, z0)

    def evaluate(self, x: Any, z0: State | None = None) -> Any:
        """What ``forward`` does, outside of ``torch.compile``."""
        with full_precision(x) as x:
            fn, start = self._prepare(x, z0)
            z = self._differentiable(fn, start) if torch.is_grad_enabled() else self._settled(fn, start)
            return like_input(fn.state(z), x)

    @torch.no_grad()
    def solve(self, x: Any, z0: State | None = None, trace: bool = False) -> Solution:
        """The solution with residual, steps and status per sample; ``trace=True`` keeps every residual. No
        gradient.
        """
        with full_precision(x) as x, statistics_paused():
            fn, start = self._prepare(x, z0)
            solution = self._find(fn, start, trace)
            return replace(solution, value=fn.state(solution.value))

    def energy(self, x: Any) -> Tensor:
        """G(z*; x), one number per sample.

        Its gradient in x and in the parameters is exact, although z* is held fixed: at a stationary point the
        part that goes through z* vanishes (envelope theorem). That of the second derivative does not, so it
        is refused, except for :class:`~geq.gradients.Unrolled`, where z* is the last iterate with its graph.
        """
        problem = self.problem
        with full_precision(x) as x:
            c = problem.inject(x)
            fn = self.cell.at(c)
            if isinstance(self.gradient, Unrolled):
                z = self.gradient.iterate(fn, fn.start(None))
                assert isinstance(z, Tensor)
                return problem.energy(z, c)
            with torch.no_grad():
                # The image, because only a prox is sure to satisfy the constraints to the last digit.
                z = fn(self._find(fn, None).value)
            assert isinstance(z, Tensor)
            return Once.apply(problem.energy(z, c))

    @torch.no_grad()
    def attention(self, x: Any) -> Tensor:
        """β of every patch at the equilibrium (Gaussian kernels): ≈ 1 where the state explains the input, ≈ 0
        for outliers.
        """
        problem = self.problem
        with full_precision(x) as x, statistics_paused():
            c = problem.inject(x)
            z = self._find(self.cell.at(c), None).value
            assert isinstance(z, Tensor)
            return problem.attention(z, c)

    @torch.no_grad()
    def map_size(self, x: Any) -> Size | None:
        """Height and width of the state for x; None for vectors."""
        with statistics_paused():
            return size_of(self.cell.initial_state(self.cell.inject(x)))

    def well_posedness(self, size: Size | None = None) -> WellPosedness:
        """What the cell's weights prove: contraction, uniqueness, step sizes; None where nothing is proved.

        Args:
            size: height and width of the maps. The norm of a convolution, and with it the certificate,
                depends on them; vectors have none.
        """
        return self.cell.well_posedness(size)

    def _prepare(self, x: Any, z0: State | None) -> tuple[StationaryMap, State | None]:
        """The map for x, and where to start if not at the cell's initial state."""
        c = self.cell.inject(x)
        fn = self.cell.at(c)
        if self.cell.couples_samples and not isinstance(self.gradient, Unrolled):
            fn = JointMap(self.cell, c)
        if z0 is None:
            return fn, None
        start = self.cell.initial_state(c)
        expected, came = [[tuple(p.shape) for p in parts_of(s)] for s in (start, z0)]
        if expected != came:
            raise InputError(f"z0 must have the shape of the state, {expected}: got {came}")
        cast = [new.to(old.dtype) for new, old in zip(parts_of(z0), parts_of(start), strict=True)]
        return fn, tuple(cast) if isinstance(start, tuple) else cast[0]

    def _find(self, fn: StationaryMap, z0: State | None, trace: bool = False) -> Solution:
        solver, max_steps = self.solver, self.max_steps
        on_failure = self.on_failure or ("ignore" if self.training else "raise")
        features = self.feature_map(fn)
        tol = self.tolerance(features)
        if isinstance(self.gradient, Unrolled):
            # An unrolled layer is its iterations: it ends after them, wherever that is.
            solver, tol, max_steps, on_failure = Picard(), self.tol, 1, "ignore"
        solution = fixed_point(
            features or fn,
            self._start(fn, features, z0),  # not kept here, so that the solve can let go of it
            solver,
            tol=tol,
            max_steps=max_steps,
            on_failure=on_failure,
            trace=trace,
        )
        solution = self._counted(solution)
        self._remember(solution)
        if features is not None:
            assert isinstance(solution.value, Tensor)
            solution = replace(solution, value=features.state(solution.value))
        return solution

    def _start(self, fn: StationaryMap, features: FeatureMap | None, z0: State | None) -> State:
        if isinstance(self.gradient, Unrolled):
            return self.gradient.iterate(fn, fn.start(z0))
        if features is None:
            return fn.start(z0)
        assert z0 is None or isinstance(z0, Tensor)
        return features.start(z0)

    def tolerance(self, features: FeatureMap | None) -> float:
        """Relative residual of what the solver iterates that bounds the state's by ``tol``."""
        return self.tol * (self.solver if features is None else features).tolerance_factor

    def feature_map(self, fn: StationaryMap) -> FeatureMap | None:
        """The smaller equation in Wz, where the map has one and the solver can take it."""
        takes_any_map = not isinstance(self.solver, (ProximalGradient, FISTA))
        if isinstance(fn, ProximalMap) and takes_any_map and not isinstance(self.gradient, Unrolled):
            return fn.features()
        return None

    def _differentiable(self, fn: StationaryMap, z0: State | None) -> State:
        if isinstance(self.gradient, Unrolled):
            z = self.gradient.iterate(fn, fn.start(z0))
            with torch.no_grad():
                end = fixed_point(fn, z, Picard(), tol=self.tol, max_steps=1, on_failure="ignore")
                self._remember(self._counted(end))
            return z
        value = self._settled(fn, z0)
        if isinstance(value, Tensor):
            return self.gradient.attach(fn, value, self._remember_adjoint)
        packing = Packing.of(value)
        attached = self.gradient.attach(
            lambda rows: packing.pack(fn(packing.unpack(rows))), packing.pack(value), self._remember_adjoint
        )
        return packing.unpack(attached)

    @torch.no_grad()
    def _settled(self, fn: StationaryMap, z0: State | None) -> State:
        """The fixed point, of which a cell in training takes its statistics, once for each forward pass."""
        value = self._find(fn, z0).value
        if self.training and statistics_wanted():
            fn.cell.settled(fn.state(value), fn.context)
        return value

    def _counted(self, solution: Solution) -> Solution:
        """The solution with the steps of an unrolled layer, of whose end alone the residual was taken."""
        if not isinstance(self.gradient, Unrolled):
            return solution
        return replace(solution, steps=torch.full_like(solution.steps, self.gradient.steps))

    def _remember(self, solution: Solution) -> None:
        self.last_solution = replace(solution, value=solution.residual.new_empty(0))

    def _remember_adjoint(self, solution: Solution) -> None:
        self.last_adjoint = solution

    def extra_repr(self) -> str:
        return f"solver={self.solver}, gradient={self.gradient}, tol={self.tol:g}, max_steps={self.max_steps}"


@contextlib.contextmanager
def full_precision(x: Any) -> Iterator[Any]:
    """Autocast off, and x in single precision if it was on; inference mode replaced by ``no_grad``.

    A fixed point to 1e-3 does not exist in bfloat16, whose own resolution is 4e-3. In inference mode nothing
    can be differentiated, not even a similarity in the state, which is what a derived cell does.
    """
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


def like_input(z: State, x: Any) -> State:
    """The state in the precision of a half-precision module's input; found in single precision."""
    dtype = next((t.dtype for t in tensors_in(x)), None)
    if dtype not in HALF:
        return z
    return tuple(part.to(dtype) for part in z) if isinstance(z, tuple) else z.to(dtype)


def tensors_in(x: Any) -> list[Tensor]:
    return [t for t in (x if isinstance(x, (tuple, list)) else (x,)) if isinstance(t, Tensor)]
