"""Conjugate gradients for the symmetric adjoint system, sample by sample."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geq.solver.solution import Solution, Status


def conjugate_gradient(
    product: Callable[[Tensor], Tensor], target: Float[Tensor, "batch *state"], tol: float, max_steps: int
) -> tuple[Solution, Bool[Tensor, " batch"]]:
    """Solve A y = target for a symmetric positive definite A, each sample on its own.

    Stops a sample when ‖Ay − target‖ ≤ tol·‖target‖, or when it meets a direction of curvature pᵀAp ≤ 0,
    which a positive definite A does not have.

    Returns:
        The solution (``steps`` counts products with A), and which samples met non-positive curvature.
    """
    column = (-1, *[1] * (target.dim() - 1))
    precise = torch.promote_types(target.dtype, torch.float32)
    tiny = torch.finfo(precise).tiny

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).flatten(1).sum(1, dtype=precise)

    # Solved for a target of unit size, since the squares of small gradients would underflow.
    size = target.flatten(1).abs().amax(1).view(column)
    size = torch.where(size > 0, size, 1.0)
    target = target / size
    y, residual = torch.zeros_like(target), target
    direction = residual
    square = dot(residual, residual)
    limit = square * tol**2
    steps = torch.zeros(target.shape[0], dtype=torch.int64, device=target.device)
    indefinite = torch.zeros_like(steps, dtype=torch.bool)
    active = square > limit
    for _ in range(max_steps):
        if not bool(active.any()):
            break
        image = product(direction)
        curvature = dot(direction, image)
        steps += active
        # NaN is not positive either, so a poisoned sample stops here and leaves the others alone.
        indefinite |= active & ~(curvature > 0)
        active = active & ~indefinite
        length = torch.where(active, square / curvature.clamp_min(tiny), 0.0).to(target.dtype).view(column)
        y = torch.where(active.view(column), y + length * direction, y)
        residual = torch.where(active.view(column), residual - length * image, residual)
        previous, square = square, torch.where(active, dot(residual, residual), square)
        active = active & (square > limit)
        ratio = (square / previous.clamp_min(tiny)).to(target.dtype).view(column)
        direction = residual + ratio * direction
    relative = (square / (limit / tol**2).clamp_min(tiny)).sqrt()
    converged = (square <= limit) & ~indefinite
    status = Status.CONVERGED if bool(converged.all()) else Status.MAX_STEPS
    return Solution(y * size, relative, converged, steps, status), indefinite
