"""Conjugate gradients for the symmetric adjoint system, sample by sample."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geq.solver.solution import Solution, Status
from geq.solver.state import Packing


def conjugate_gradient(
    product: Callable[[Tensor], Tensor], target: Float[Tensor, "batch *state"], tol: float, max_steps: int
) -> tuple[Solution, Bool[Tensor, " batch"]]:
    """Solve A y = target for a symmetric positive definite A, each sample on its own.

    Stops a sample when ‖Ay − target‖ ≤ tol·‖target‖, or when it meets a direction of curvature pᵀAp ≤ 0,
    which a positive definite A does not have.

    Returns:
        The solution (``steps`` counts products with A), and which samples met non-positive curvature.
    """
    packing = Packing.of(target)
    rows = packing.pack(target)
    precise = torch.promote_types(target.dtype, torch.float32)
    tiny = torch.finfo(precise).tiny

    def dot(a: Tensor, b: Tensor) -> Tensor:
        # As a product of matrices: much faster on a CPU than a sum of products.
        return torch.bmm(a.to(precise).unsqueeze(1), b.to(precise).unsqueeze(2)).view(-1)

    # Solved for a target of unit size, since the squares of small gradients would underflow.
    size = torch.linalg.vector_norm(rows, torch.inf, dim=1, keepdim=True)
    size = torch.where(size > 0, size, 1.0)
    residual = rows / size
    y, direction = torch.zeros_like(residual), residual.clone()
    square = dot(residual, residual)
    limit = square * tol**2
    steps = torch.zeros(target.shape[0], dtype=torch.int64, device=target.device)
    indefinite = torch.zeros_like(steps, dtype=torch.bool)
    active = square > limit
    for _ in range(max_steps if bool(active.any()) else 0):
        argument = packing.unpack(direction)
        assert isinstance(argument, Tensor)
        image = packing.pack(product(argument))
        curvature = dot(direction, image)
        steps += active
        # NaN is not positive either, so a poisoned sample stops here and leaves the others alone.
        indefinite |= active & ~(curvature > 0)
        active = active & ~indefinite
        length = torch.where(active, square / curvature.clamp_min(tiny), 0.0).to(target.dtype).unsqueeze(1)
        y.addcmul_(length, direction)
        residual.addcmul_(length, image, value=-1)
        previous, square = square, torch.where(active, dot(residual, residual), square)
        active = active & (square > limit)
        if not bool(active.any()):
            break
        ratio = (square / previous.clamp_min(tiny)).to(target.dtype).unsqueeze(1)
        torch.addcmul(residual, ratio, direction, out=direction)
    relative = (square / (limit / tol**2).clamp_min(tiny)).sqrt()
    converged = (square <= limit) & ~indefinite
    status = Status.CONVERGED if bool(converged.all()) else Status.MAX_STEPS
    return Solution(packing.unpack(y.mul_(size)), relative, converged, steps, status), indefinite
