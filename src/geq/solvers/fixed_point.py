"""The one loop that all solvers run in: it evaluates, measures, freezes, stops and reports."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from geq.cells.base import Equation, State, detached, parts_of
from geq.errors import ConvergenceError, ConvergenceWarning, InputError, OptionError, unknown_name
from geq.operators.operator import channels_last
from geq.solvers import rules
from geq.solvers.base import Rows, Solution, Solver, Status
from geq.solvers.precision import enough_precision

ON_FAILURE = ("raise", "warn", "ignore")


def fixed_point(
    fn: Callable[[Any], Any] | Equation,
    z0: State | None,
    solver: Solver[Any],
    *,
    tol: float = 1e-3,
    abs_tol: float | None = None,
    max_steps: int = 50,
    on_failure: str = "raise",
    trace: bool = False,
) -> Solution:
    """Solve z = fn(z) for every sample of a batch.

    A sample has converged when ‖fn(z) − z‖ ≤ tol·‖fn(z)‖ + abs_tol. From then on its value is frozen: ``fn``
    still sees it, since it maps whole batches, but nothing about it changes. So a sample's result does not
    depend on its batch-mates, as far as ``fn`` itself treats samples independently. A sample has diverged
    when its residual is not finite or more than 1e8 times its first one; it stops with its best state and
    leaves the others alone.

    ``fn`` is called in the caller's grad mode, but no graph is kept from one evaluation to the next: the
    solution is detached. Wrap the call in ``torch.no_grad()`` unless ``fn`` needs gradients of its own.
    ``fn`` must not modify its argument, and must return a new tensor. There is one synchronisation with the
    device per evaluation. On a GPU TF32 is off inside where ``tol`` needs that; see
    :mod:`geq.solvers.precision`.

    Args:
        fn: The map, which takes and returns a state like ``z0``; or an equation, which the solver may replace
            by an equivalent one (see :meth:`~geq.solvers.Solver.prepare`).
        z0: Where to start: a tensor, or a tuple of tensors, with the batch as first dimension. An equation
            knows its own start, which None takes.
        solver: How to get from one state to the next.
        tol: Relative tolerance, above 0.
        abs_tol: Absolute tolerance. The default, 1e-15 times the first residual but at most 1e-15, only
            serves solutions that are exactly zero.
        max_steps: The most evaluations of ``fn``.
        on_failure: What to do unless all samples converge: "raise" a :class:`~geq.errors.ConvergenceError`
            that carries the solution, "warn", or "ignore".
        trace: Whether to keep the residuals of every evaluation.

    >>> from geq.solvers import Picard
    >>> solution = fixed_point(lambda z: z / 2 + 1, torch.zeros(1, 1), Picard(), tol=1e-3)
    >>> round(solution.value.item(), 2), solution.steps.item(), solution.status.name
    (2.0, 10, 'CONVERGED')
    """
    if not (math.isfinite(tol) and tol > 0):
        raise OptionError(
            f"tol must be above 0: got {tol!r}; 1e-3 is usual for training, 1e-8 for double precision"
        )
    if abs_tol is not None and not (math.isfinite(abs_tol) and abs_tol >= 0):
        raise OptionError(f"abs_tol must be at least 0: got {abs_tol!r}")
    if not isinstance(max_steps, int) or max_steps < 1:
        raise OptionError(f"max_steps must be a whole number of at least 1: got {max_steps!r}; 50 is usual")
    if on_failure not in ON_FAILURE:
        raise unknown_name("value of on_failure", on_failure, ON_FAILURE)
    if not isinstance(fn, Equation):
        fn = Equation(fn)
    joint = fn.couples_samples
    fn = solver.prepare(fn)
    tol = tol * fn.tolerance_factor
    known_finite = z0 is None and fn.starts_at_zero
    z0 = fn.start() if z0 is None else z0
    check_start(z0, known_finite)
    solver.check_tolerance(tol, parts_of(z0)[0].dtype)
    empty = parts_of(z0)[0].shape[0] == 0
    packing = Packing.of(z0, joint and not empty)
    z = packing.pack(z0).detach()
    if empty:
        return replace(_Progress(z, tol, abs_tol, trace).solution(packing), value=fn.state(z0))
    del z0  # a start that nobody keeps need not be paid for during the solve
    progress = _Progress(z, tol, abs_tol, trace)
    memory: Any = None
    with enough_precision(tol, z):
        for count in range(1, max_steps + 1):
            state = packing.unpack(z)
            image = fn(state)
            check_image(image, state)
            with torch.no_grad():
                if count == 1:
                    # The map decides the order in memory, since it is the map's convolutions that care.
                    packing = Packing.of(image, joint)
                    z = packing.pack(state)
                fz = packing.pack(image).detach()
                residual = fz - z
                progress.record(z, fz, residual)
                if progress.finished or count == max_steps:
                    break
                if count == 1:
                    memory = solver.init(z)
                z, memory = solver.step(z, fz, residual, memory)
                z = progress.hold(z)
                del state, image, fz, residual  # before the next ones are made

    if progress.best_is_start:
        progress.best = progress.best.clone()  # a start that was good enough stays the caller's own memory
    solution = progress.solution(packing)
    with enough_precision(tol, z):
        solution = replace(solution, value=detached(fn.state(solution.value)))
    if solution.status is not Status.CONVERGED and on_failure != "ignore":
        failed = ~solution.converged
        message = (
            f"{solver} must bring the relative residual of every sample to {tol:.1e}: "
            f"{int(failed.sum())} of {failed.numel()} samples did not get there in "
            f"{int(solution.steps.max())} evaluations "
            f"(worst residual {float(solution.residual.max()):.1e}): {solution.status.value}"
        )
        if on_failure == "raise":
            raise ConvergenceError(message, solution)
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    return solution


class _Progress:
    """What is known of each sample so far.

    Counters and masks live on the CPU, where one transfer per evaluation brings the norms: testing them then
    costs no further synchronisation.
    """

    def __init__(self, z: Tensor, tol: float, abs_tol: float | None, trace: bool) -> None:
        batch = z.shape[0]
        self.tol, self.abs_tol = tol, abs_tol
        self.floor: Tensor | float = 0.0
        self.norm_dtype = torch.promote_types(z.dtype, torch.float32)
        numbers = torch.finfo(self.norm_dtype)
        self.low = math.sqrt(numbers.tiny) / numbers.eps
        self.best, self.best_is_start = z, True
        self.residual = torch.full((batch,), math.inf, dtype=self.norm_dtype)
        self.active = torch.ones(batch, dtype=torch.bool)
        self.converged = torch.zeros(batch, dtype=torch.bool)
        self.steps = torch.zeros(batch, dtype=torch.int64)
        self.status = Status.CONVERGED
        self.count = 0
        self.limit: Tensor | None = None
        self.trace: list[Tensor] | None = [] if trace else None
        self._held: Tensor | None = None

    @property
    def finished(self) -> bool:
        return self._held is not None and not bool(self.active.any())

    def record(self, z: Tensor, fz: Tensor, residual: Tensor) -> None:
        """Measure the residual at ``z``; keep it where it is the best, and stop the samples that are done."""
        absolute, image = self._norms(residual, fz)
        if self.limit is None:
            self.limit = rules.divergence_limit(absolute)
            self.floor = rules.residual_floor(absolute, self.tol, self.abs_tol)
        relative = rules.relative_residual(absolute, image, self.floor)
        self.count += 1

        improved = self.active & (relative < self.residual)
        if self.trace is not None:
            finite = relative.nan_to_num(nan=math.inf, posinf=math.inf)
            self.trace.append(torch.where(self.active, finite, self.trace[-1] if self.trace else finite))
        if torch.equal(improved, self.active):
            # Stopped samples are held at their best in z, so this is right for them as well.
            self.best, self.best_is_start = z, self.count == 1
        else:
            self.best, self.best_is_start = torch.where(_column(improved, z), z, self.best), False
        self.residual = torch.where(improved, relative, self.residual)

        sound = rules.within(absolute, self.limit)
        active = self.active & sound & (relative > self.tol)
        if not torch.equal(active, self.active):
            self.converged |= self.active & (relative <= self.tol)
            if not bool((sound | self.converged)[self.active].all()):
                self.status = Status.DIVERGED
            self.steps = torch.where(active == self.active, self.steps, self.count)
            self.active = active
            self._held = _column(~active, z)

    def _norms(self, residual: Tensor, fz: Tensor) -> tuple[Tensor, Tensor]:
        """‖f(z) − z‖ (NaN where f(z) is not finite) and ‖f(z)‖ of every sample.

        The squares of very small or large numbers are zero or infinite, which would pass for convergence or
        divergence: those rows are scaled first. There are none in ordinary problems.
        """
        norms = [torch.linalg.vector_norm(rows, dim=1, dtype=self.norm_dtype) for rows in (residual, fz)]
        absolute, image = torch.stack(norms).cpu()
        sound = (image >= self.low) & (absolute + image < math.inf)
        if bool(sound.all()):
            return absolute, image
        lost = self.active & ~sound
        if bool(lost.any()):
            index = lost.nonzero().squeeze(1)
            rows = index.to(fz.device)
            for found, values in ((absolute, residual), (image, fz)):
                found[index] = rules.row_norm(values[rows].to(self.norm_dtype)).cpu()
        absolute = rules.finite_or_nan(absolute, image)
        return absolute, image

    def hold(self, z: Tensor) -> Tensor:
        """``z``, with the samples that stopped put back to their best state."""
        return z if self._held is None else torch.where(self._held, self.best, z)

    def solution(self, packing: Packing) -> Solution:
        if self.status is Status.CONVERGED and not bool(self.converged.all()):
            self.status = Status.MAX_STEPS
        device = self.best.device
        trace: Tensor | None = None
        if self.trace is not None:  # empty for an empty batch
            trace = torch.stack(self.trace).to(device) if self.trace else self.residual.new_zeros(0, 0)
        return Solution(
            value=packing.unpack(self.best),
            residual=self.residual.to(device),
            converged=self.converged.to(device),
            steps=torch.where(self.active, self.count, self.steps).to(device),
            status=self.status,
            trace=trace,
        )


def _column(mask: Bool[Tensor, " batch"], like: Tensor) -> Bool[Tensor, "batch 1"]:
    return mask.to(like.device).unsqueeze(1)


@dataclass(frozen=True)
class Packing:
    """A state as a matrix with one row per sample, and back; both ways are differentiable.

    A state is a tensor, or a tuple of tensors (the scales of a multi-scale model), whose first dimension is
    the batch. Rows follow the order in memory, so that a single tensor is packed and unpacked without a copy,
    also when it is ``channels_last``; the parts of a tuple are concatenated.

    Attributes:
        shapes: Of one sample of every part of the state.
        channels_last: Of every part, whether its channels come last in memory.
        is_tuple: Whether the state is a tuple of its parts.
        batch: Samples in the only row of a joint packing; None for a row per sample.

    >>> z = (torch.zeros(2, 3), torch.ones(2, 1, 2))
    >>> packing = Packing.of(z)
    >>> packing.pack(z).tolist()
    [[0.0, 0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0, 1.0]]
    >>> [part.shape for part in packing.unpack(packing.pack(z))]
    [torch.Size([2, 3]), torch.Size([2, 1, 2])]
    """

    shapes: tuple[tuple[int, ...], ...]
    channels_last: tuple[bool, ...]
    is_tuple: bool
    batch: int | None = None

    @classmethod
    def of(cls, state: State, joint: bool = False) -> Packing:
        """Describe a state.

        Args:
            state: The state.
            joint: Whether the whole batch is one row, for equations that couple samples: solvers stop every
                row by its own residual, and a sample that stopped would not follow the others any more.
        """
        parts = parts_of(state)
        shapes = tuple(tuple(part.shape[1:]) for part in parts)
        last = tuple(map(channels_last, parts))
        return cls(shapes, last, isinstance(state, tuple), parts[0].shape[0] if joint else None)

    def pack(self, state: State) -> Rows:
        ordered = zip(parts_of(state), self.channels_last, self.shapes, strict=True)
        rows = [
            (part.permute(0, 2, 3, 1) if last else part).reshape(part.shape[0], math.prod(shape))
            for part, last, shape in ordered
        ]
        together = torch.cat(rows, 1) if self.is_tuple else rows[0]
        return together if self.batch is None else together.reshape(1, -1)

    def unpack(self, rows: Rows) -> State:
        if self.batch is not None:
            rows = rows.reshape(self.batch, -1)
        if not self.is_tuple:
            return self._part(rows, 0)
        parts = rows.split([math.prod(shape) for shape in self.shapes], 1)
        return tuple(self._part(part, index) for index, part in enumerate(parts))

    def _part(self, rows: Tensor, index: int) -> Tensor:
        shape = self.shapes[index]
        if self.channels_last[index]:
            return rows.reshape(rows.shape[0], *shape[1:], shape[0]).permute(0, 3, 1, 2)
        return rows.reshape(rows.shape[0], *shape)


def check_start(state: State, known_finite: bool = False) -> None:
    """Refuse a starting state that no solver can work with; whether it is finite may be known already."""
    parts = parts_of(state)
    if not parts:
        raise InputError("a state must be a tensor or a tuple of at least one tensor: got an empty tuple")
    for part in parts:
        if part.dim() == 0 or part.shape[0] != parts[0].shape[0]:
            raise InputError(
                f"every part of a state must have the batch as its first dimension: got {describe(state)}"
            )
        if not part.is_floating_point() or part.dtype != parts[0].dtype:
            raise InputError(
                f"a state must have one real floating dtype: got {describe(state)}; call .float() on it"
            )
        if part.device != parts[0].device:
            raise InputError(f"a state must live on one device: got {describe(state)}")
        if not known_finite and not bool(torch.isfinite(part).all()):
            raise InputError(
                "the starting state must be finite: it contains NaN or infinity; "
                "look for them in the input, or start from zeros"
            )


def check_image(image: Any, state: State) -> None:
    """Refuse a map whose image is not of the state's own kind: z = f(z) would make no sense."""
    if isinstance(image, tuple) == isinstance(state, tuple):
        images, states = image if isinstance(image, tuple) else (image,), parts_of(state)
        if len(images) == len(states) and all(
            isinstance(new, Tensor)
            and new.shape == old.shape
            and new.dtype == old.dtype
            and new.device == old.device
            for new, old in zip(images, states, strict=True)
        ):
            return
    raise InputError(
        f"the map must return what it is given: got a state of {describe(state)}, returned {describe(image)}"
    )


def describe(state: Any) -> str:
    """Shape, dtype and device of every part, for error messages.

    >>> describe((torch.zeros(2, 3), torch.zeros(2)))
    '((2, 3) float32 cpu, (2,) float32 cpu)'
    """
    if isinstance(state, Tensor):
        return f"{tuple(state.shape)} {str(state.dtype).removeprefix('torch.')} {state.device}"
    if isinstance(state, tuple):
        return f"({', '.join(describe(part) for part in state)})"
    return type(state).__name__
