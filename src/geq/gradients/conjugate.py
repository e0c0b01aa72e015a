"""Conjugate gradients for the symmetric adjoint system, sample by sample."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geq.solvers.solution import Solution, Status
from geq.solvers.state import Packing

Product = Callable[[Tensor], Tensor]


def conjugate_gradient(
    gram: Product,
    core: Product,
    target: Float[Tensor, "batch *state"],
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
