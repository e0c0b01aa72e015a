"""Whether a point is the prox of a convex function, judged by values of that function only."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jaxtyping import Float
from torch import Tensor


def prox_violation(
    function: Callable[[Tensor], float],
    z: Float[Tensor, " state"],
    claimed: Float[Tensor, " state"],
    candidates: Iterable[Float[Tensor, " state"]],
) -> float:
    """By how much a candidate y breaks function(y) ≥ function(u) + ⟨z − u, y − u⟩; 0 if none does.

    u = prox_function(z) if and only if no y does (z − u is a subgradient at u).
    """
    at_claimed = function(claimed)
    broken = (
        at_claimed + ((z - claimed) @ (y - claimed)).item() - function(y)
        for y in candidates  # −∞ where the candidate is outside of the domain
    )
    return max(0.0, *broken)


def minimum_violation(
    function: Callable[[Tensor], float],
    claimed: Float[Tensor, " state"],
    candidates: Iterable[Float[Tensor, " state"]],
) -> float:
    """By how much a candidate is lower than the claimed minimiser; 0 if none is."""
    return prox_violation(function, claimed, claimed, candidates)
