"""Check of a point as the prox of a convex function, by values of that function only."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float
from torch import Tensor


def prox_violation(
    function: Callable[[Tensor], float],
    z: Float[Tensor, " state"],
    claimed: Float[Tensor, " state"],
    candidates: Iterable[Float[Tensor, " state"]],
) -> float:
    """By how much a candidate y breaks function(y) ≥ function(u) + ⟨z − u, y − u⟩; 0 if none does.

    u = prox_function(z) if and only if no y does (z − u is a subgradient at u). Points between u and the
    candidates are tried as well: near u the curvature no longer hides a slope that is not z − u.
    """
    at_claimed = function(claimed)
    worst = 0.0
    for candidate in candidates:
        for weight in (1.0, 0.03):
            y = torch.lerp(claimed, candidate, weight)
            # −∞ where y is outside of the domain
            worst = max(worst, at_claimed + ((z - claimed) @ (y - claimed)).item() - function(y))
    return worst


def minimum_violation(
    function: Callable[[Tensor], float],
    claimed: Float[Tensor, " state"],
    candidates: Iterable[Float[Tensor, " state"]],
) -> float:
    """By how much a candidate is lower than the claimed minimiser; 0 if none is."""
    return prox_violation(function, claimed, claimed, candidates)
