"""The exact gradient, by the implicit function theorem."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from geq.error import ConvergenceError, ConvergenceWarning, OptionError, unknown_name
from geq.gradient.base import Gradient, Linearisation, Record
from geq.gradient.conjugate import conjugate_gradient
from geq.solver import Anderson, Solution, Solver, Status, fixed_point


@dataclass(frozen=True)
class Implicit(Gradient):
    """u = (I − Jᵀ)⁻¹g to a tolerance: the exact gradient at the fixed point.

    For the map of a hidden problem J = D·H with the diagonal D = prox' and the Hessian H of S, so that with u
    = D^{−½}y the system reads (I − D^{½}HD^{½})y = D^{½}g: symmetric, and positive definite where the
    objective is strongly convex around z*. Conjugate gradients then need about half of the products of a
    general method. Samples that meet non-positive curvature, and maps without that structure, are solved as
    the fixed point u = g + Jᵀu.

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

    def adjoint(self, at: Linearisation, grad: Tensor, record: Record | None) -> Tensor:
        # One pass to see that all is well; a sum that overflows is looked at more closely, as NaN is.
        poisoned = not bool(torch.isfinite(grad.sum()))
        if poisoned:
            finite = torch.isfinite(grad).flatten(1).all(1).view(-1, *[1] * (grad.dim() - 1))
            grad = torch.where(finite, grad, 0.0)
        if self.solver is None and at.slope is not None:
            solution = self._symmetric(at, grad)
        else:
            solution = self._general(at, grad)
        if record is not None:
            record(replace(solution, value=grad.new_empty(0)))
        if solution.status is not Status.CONVERGED:
            self._complain(solution)
        assert isinstance(solution.value, Tensor)
        # What came as NaN leaves as NaN, as from every other layer: loss scaling relies on it.
        return torch.where(finite, solution.value, torch.nan) if poisoned else solution.value

    def _symmetric(self, at: Linearisation, grad: Tensor) -> Solution:
        assert at.slope is not None
        tol = max(self.tol, 4 * torch.finfo(grad.dtype).eps)
        # A mask is its own root, and every y that occurs is already masked.
        root = at.slope if at.slope_is_mask else at.slope.sqrt()

        def product(y: Tensor) -> Tensor:
            return torch.addcmul(y, root, at.hessian(y if at.slope_is_mask else root * y), value=-1)

        solution, indefinite = conjugate_gradient(product, root * grad, tol, self.max_steps)
        assert isinstance(solution.value, Tensor)
        u = solution.value
        if not at.slope_is_mask:
            # Where D = 0 the graph of T multiplies u by zero: any u will do.
            u = torch.where(root > 0, u / root.clamp_min(torch.finfo(root.dtype).tiny), 0.0)
        if not bool(indefinite.any()):
            return replace(solution, value=u)
        general = self._general(at, grad)
        assert isinstance(general.value, Tensor)
        column = indefinite.view(-1, *[1] * (grad.dim() - 1))
        converged = torch.where(indefinite, general.converged, solution.converged)
        return Solution(
            value=torch.where(column, general.value, u),
            residual=torch.where(indefinite, general.residual, solution.residual),
            converged=converged,
            steps=solution.steps + torch.where(indefinite, general.steps, 0),
            status=Status.CONVERGED if bool(converged.all()) else general.status,
        )

    def _general(self, at: Linearisation, grad: Tensor) -> Solution:
        tol = max(self.tol, 4 * torch.finfo(grad.dtype).eps)
        return fixed_point(
            lambda u: grad + at.transposed_jacobian(u),
            torch.zeros_like(grad),
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
