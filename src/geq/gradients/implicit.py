"""The exact gradient, by the implicit function theorem, and conjugate gradients for its symmetric system."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geq.cells.linearisation import Linearisation
from geq.errors import ConvergenceError, ConvergenceWarning, OptionError, unknown_name
from geq.gradients.base import Adjoint, Gradient, Record
from geq.solvers import Anderson, Solution, Solver, Status, fixed_point
from geq.solvers.fixed_point import Packing
from geq.solvers.precision import enough_precision

Product = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Implicit(Gradient):
    """u = (I − Jᵀ)⁻¹g to a tolerance: the exact gradient at the fixed point.

    For the map of a hidden problem J = D·H with the diagonal D = prox' and the Hessian H of S, so that with u
    = D^{−½}y the system reads (I − D^{½}HD^{½})y = D^{½}g: symmetric, and positive definite where the
    objective is strongly convex around z*. Conjugate gradients then need about half of the products of a
    general method; for a kernel on features they run in the space of the features (see
    :func:`conjugate_gradient`). Samples that meet non-positive curvature, and maps
    without that structure, are solved as a fixed point.

    Args:
        tol: relative tolerance of the adjoint system, independent of the forward one (single precision limits
            it to about 1e-6).
        max_steps: most products with the Jacobian.
        solver: for the general system; giving one turns conjugate gradients off. Default: conjugate gradients
            where they apply, ``Anderson(memory=10)`` elsewhere.
        on_failure: "raise", "warn" (default) or "ignore" when the tolerance is not reached.
    """

    tol: float = 1e-6
    max_steps: int = 100
    solver: Solver[Any] | None = None
    on_failure: str = "warn"

    def __post_init__(self) -> None:
        if not self.tol > 0:
            raise OptionError(f"Implicit: tol must be above 0: got {self.tol}")
        if self.max_steps < 1:
            raise OptionError(f"Implicit: max_steps must be at least 1: got {self.max_steps}")
        if self.on_failure not in ("raise", "warn", "ignore"):
            raise unknown_name("value of on_failure", self.on_failure, ("raise", "warn", "ignore"))

    def adjoint(self, at: Linearisation, grad: Tensor, record: Record | None) -> Adjoint:
        axes, column = tuple(range(1, grad.dim())), (-1, *[1] * (grad.dim() - 1))
        # Solved for a gradient of unit size, since the squares of small ones would underflow.
        # The largest absolute value is on a CPU ten times faster so than as the maximum norm.
        if not grad.numel():
            size = grad.new_ones(len(grad))
        else:
            size = torch.maximum(grad.amax(axes), -grad.amin(axes)) if axes else grad.abs()
        finite = torch.isfinite(size)
        if not bool(finite.all()):
            grad = torch.where(finite.view(column), grad, 0.0)
        size = torch.where(finite & (size > 0), size, 1.0)
        with enough_precision(self.tol, grad):
            solution = self._solve(at, grad, size.view(column))
        if record is not None:
            record(replace(solution, value=grad.new_empty(0)))
        if solution.status is not Status.CONVERGED:
            self._complain(solution)
        assert isinstance(solution.value, Tensor)
        # What came as NaN leaves as NaN, as from every other layer: loss scaling relies on it.
        q = solution.value * torch.where(finite, size, torch.nan).view(column)
        return at.extend(at.core(q)).add_(grad), q

    def _solve(self, at: Linearisation, grad: Tensor, size: Tensor) -> Solution:
        """q of the space in the middle, for the gradient divided by its size."""
        tol = max(self.tol, 4 * torch.finfo(grad.dtype).eps)
        target, squared_norm = at.right_hand_side(grad, size)
        if self.solver is not None or not at.symmetric:
            return self._general(at, target, tol)
        solution, indefinite = conjugate_gradient(
            at.gram, at.core, target, squared_norm, tol, self.max_steps, at.gram_norm
        )
        if solution.status is Status.CONVERGED or not bool(indefinite.any()):
            return solution
        general = self._general(at, at.right_hand_side(grad, size)[0], tol)
        assert isinstance(solution.value, Tensor)
        assert isinstance(general.value, Tensor)
        column = indefinite.view(-1, *[1] * (target.dim() - 1))
        converged = torch.where(indefinite, general.converged, solution.converged)
        return Solution(
            value=torch.where(column, general.value, solution.value),
            residual=torch.where(indefinite, general.residual, solution.residual),
            converged=converged,
            steps=solution.steps + torch.where(indefinite, general.steps, 0),
            status=Status.CONVERGED if bool(converged.all()) else general.status,
        )

    def _general(self, at: Linearisation, target: Tensor, tol: float) -> Solution:
        return fixed_point(
            lambda q: target + at.gram(at.core(q)),
            torch.zeros_like(target),
            self.solver or Anderson(memory=10),
            tol=tol,
            max_steps=self.max_steps,
            on_failure="ignore",
        )

    def _complain(self, solution: Solution) -> None:
        failed = int((~solution.converged).sum())
        message = (
            f"the adjoint system must reach a relative residual of {self.tol:.1e}: {failed} of "
            f"{solution.converged.numel()} samples did not within {self.max_steps} products (worst "
            f"{float(solution.residual.max()):.1e}); "
            "increase max_steps or tol of Implicit, or bound the norm of W"
        )
        if self.on_failure == "raise":
            raise ConvergenceError(message, solution)
        if self.on_failure == "warn":
            warnings.warn(message, ConvergenceWarning, stacklevel=2)


def conjugate_gradient(
    gram: Product,
    core: Product,
    target: Float[Tensor, " batch *state"],
    squared_norm: Float[Tensor, " batch"],
    tol: float,
    max_steps: int,
    gram_norm: float = math.inf,
) -> tuple[Solution, Bool[Tensor, " batch"]]:
    """Solve q = target + K·M·q for a symmetric M = ``core`` and a symmetric K = ``gram`` ≥ 0.

    In p with q = target + Kp the equation reads (I − MK)p = M·target, and I − MK is symmetric in the inner
    product ⟨a, Kb⟩: conjugate gradients in it need one product with K and one with M per step, and the
    product Kp comes along by the recurrence of p. For K = BBᵀ they take exactly the steps of conjugate
    gradients on (I − BᵀMB)y = g started at y = g, where target = Bg, but on vectors of q's size.

    Stops a sample when its residual r, in that norm, has ⟨r, Kr⟩ ≤ tol²·``squared_norm`` (the latter is
    ‖g‖²), or when it meets a direction of curvature ≤ 0, which a positive definite system does not have.
    Since ⟨r, Kr⟩ ≤ ‖K‖‖r‖², the last product can often be saved.

    Args:
        gram, core: the products; they return new tensors.
        target: right-hand side; its memory is taken over.
        squared_norm: what the residual is relative to.
        tol: relative tolerance.
        max_steps: most products with K.
        gram_norm: a bound on ‖K‖, where one is known.

    Returns:
        The solution q (``steps`` counts products with K), and which samples met non-positive curvature.
    """
    packing = Packing.of(target)
    precise = torch.promote_types(target.dtype, torch.float32)
    tiny = torch.finfo(precise).tiny

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return torch.linalg.vecdot(a.to(precise), b.to(precise))

    def applied(product: Product, rows: Tensor) -> Tensor:
        argument = packing.unpack(rows)
        assert isinstance(argument, Tensor)
        return packing.pack(product(argument))

    def column(numbers: Tensor) -> Tensor:
        return numbers.to(target.dtype).unsqueeze(1)

    q = packing.pack(target)
    residual = applied(core, q)
    direction = image = residual  # image is K·direction
    limit = squared_norm.to(precise) * tol**2
    square = torch.zeros_like(limit)
    bound = gram_norm * dot(residual, residual)
    steps = torch.zeros_like(limit, dtype=torch.int64)
    indefinite = torch.zeros_like(limit, dtype=torch.bool)
    active = ~(bound <= limit)
    for count in range(max_steps if bool(active.any()) else 0):
        fresh = applied(gram, residual)
        steps += active
        previous, square = square, torch.where(active, dot(residual, fresh), square)
        bound = torch.where(active, square, bound)
        active = active & (square > limit)
        if count == max_steps - 1 or not bool(active.any()):
            break
        if count == 0:
            direction, image = residual.clone(), fresh
        else:
            ratio = column(torch.where(active, square / previous.clamp_min(tiny), 0.0))
            direction = torch.addcmul(residual, ratio, direction, out=direction)
            image = torch.addcmul(fresh, ratio, image, out=image)
        del fresh
        bent = applied(core, image).sub_(direction)
        curvature = -dot(image, bent)
        # NaN is not positive either, so a poisoned sample stops here and leaves the others alone.
        indefinite |= active & ~(curvature > 0)
        active = active & ~indefinite
        length = column(torch.where(active, square / curvature.clamp_min(tiny), 0.0))
        q.addcmul_(length, image)
        residual.addcmul_(length, bent)
        del bent
        bound = torch.where(active, gram_norm * dot(residual, residual), bound)
        active = active & ~(bound <= limit)
        if not bool(active.any()):
            break
    relative = (bound.clamp_min(0) / squared_norm.to(precise).clamp_min(tiny)).sqrt()
    converged = (bound <= limit) & ~indefinite
    status = Status.CONVERGED if bool(converged.all()) else Status.MAX_STEPS
    return Solution(packing.unpack(q), relative, converged, steps, status), indefinite
