"""Rules of a solve as pure functions: residual, stopping, divergence, Anderson's weights.

The eager loop, the exported loop and whatever follows a solve call these and nothing else, so that they
cannot drift apart. Every function treats the samples of a batch independently and changes nothing in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Numbers = Float[Tensor, " batch"]
"""One number per sample."""

ABSOLUTE = 1e-15
"""Default absolute tolerance for a first residual of at least 1; it serves solutions that are exactly zero.
It is proportional to a first residual below 1, or inputs of 1e-20 would be answered by zero.
"""

BLOW_UP = 1e8
"""A sample whose ‖f(z) − z‖ exceeds this many times its first value has diverged."""


def row_norm(rows: Float[Tensor, "batch size"]) -> Numbers:
    """Return the Euclidean norm of each row without overflow or underflow of its squares."""
    if rows.shape[1] == 0:
        return rows.new_zeros(len(rows))
    largest = rows.abs().amax(1, keepdim=True)
    unit = torch.where(largest > 0, largest, torch.ones_like(largest))  # NaN becomes 1 and stays in the rows
    return (unit * torch.linalg.vector_norm(rows / unit, dim=1, keepdim=True)).squeeze(1)


def finite_or_nan(absolute: Numbers, image: Numbers) -> Numbers:
    """Return ‖f(z) − z‖, or NaN, which fails every comparison, unless ‖f(z)‖ is finite as well."""
    return absolute + 0 * image


def residual_floor(first: Numbers, tol: float | Tensor, abs_tol: float | None = None) -> Numbers | float:
    """Return what is added to ‖f(z)‖, so that ``relative <= tol`` is ‖f(z) − z‖ ≤ tol·‖f(z)‖ + abs_tol.

    Args:
        first: ‖f(z) − z‖ at the first evaluation.
        tol: Relative tolerance.
        abs_tol: Absolute tolerance; default :data:`ABSOLUTE`, in proportion to a first residual below 1.
    """
    if abs_tol is not None:
        return abs_tol / tol
    return ABSOLUTE / tol * torch.where(first < 1, first, torch.ones_like(first))  # NaN: 1


def relative_residual(absolute: Numbers, image: Numbers, floor: Numbers | float) -> Numbers:
    """Return ‖f(z) − z‖/(‖f(z)‖ + floor)."""
    # The lower bound is for f(z) = 0 and an absolute tolerance of 0.
    return absolute / (image + floor).clamp_min(torch.finfo(image.dtype).tiny)


def divergence_limit(first: Numbers) -> Numbers:
    """Return the residual above which a sample has diverged, from that of the first evaluation."""
    return (first * BLOW_UP).clamp_max(torch.finfo(first.dtype).max)


def within(absolute: Numbers, limit: Numbers) -> Bool[Tensor, " batch"]:
    """Return whether a sample has not diverged; False for NaN."""
    return absolute <= limit


def anderson_weights(
    gram: Float[Tensor, "batch n n"],
    square: Float[Tensor, "batch n"],
    identity: Float[Tensor, "n n"],
    newest: Float[Tensor, " n"],
    ridge: float,
    eps: float,
    solve: Callable[[Tensor, Tensor], Tensor],
) -> Float[Tensor, "batch n"]:
    """Return the weights of Anderson's combination of each sample, scaled to a unit diagonal.

    Args:
        gram: Inner products of the residuals.
        square: Diagonal of ``gram``. A slot of zero (empty, or lost in rounding) gets the weight 0.
        identity: Identity matrix of n rows.
        newest: Weights of the plain step, taken where the system is too ill-conditioned: where Σ|α_i| would
            lose more than half of the digits.
        ridge: Relative regularisation; never taken below the rounding error of the inner products.
        eps: Rounding error of the states that are combined.
        solve: Solver of the small linear systems.
    """
    numbers = torch.finfo(gram.dtype)
    scale = torch.where(square > numbers.tiny, square.clamp_min(numbers.tiny).rsqrt(), 0.0)
    system = gram * scale.unsqueeze(1) * scale.unsqueeze(2) + max(ridge, numbers.eps) * identity
    solved = solve(system, scale) * scale
    weights = solved / solved.sum(1, keepdim=True)
    usable = weights.abs().sum(1, keepdim=True) <= 1 / math.sqrt(eps)  # False for NaN
    return torch.where(usable, weights, newest)
