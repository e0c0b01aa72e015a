"""The Moreau envelope of φ and its prox with any step, from the map f alone, and a check of any prox."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geq.errors import OptionError
from geq_papers.theorem.unit_layer import Unit


@dataclass(frozen=True)
class Envelope:
    """M_φ^λ(z) = min_u φ(u) + ‖u − z‖²/2λ, its minimiser u = prox_{λφ}(z), and its gradient (z − u)/λ."""

    value: float
    minimiser: Float[Tensor, " state"]
    gradient: Float[Tensor, " state"]


def envelope(unit: Unit, z: Float[Tensor, " state"], step: float) -> Envelope:
    """The Moreau envelope of φ = ψ* − ½‖·‖² with λ = ``step`` > 0.

    Because ∂φ = f⁻¹ − I, the minimiser is u = f(v) where v + (1/λ − 1)f(v) = z/λ; for λ = 1 that is f(z).
    φ(u) is then known exactly (Fenchel and Young), so nothing but one strongly convex problem in v is solved.

    >>> import torch
    >>> from geq.penalties import NonNegative
    >>> unit = Unit(torch.eye(1).double() / 2, torch.ones(1).double(), NonNegative())
    >>> z = torch.ones(1).double()
    >>> bool(envelope(unit, z, 1.0).minimiser == unit(z))
    True
    """
    unit.require_proximal()
    if not step > 0:
        raise OptionError(f"the step of a Moreau envelope must be above 0: got {step}; for 0 it is φ itself")
    v = unit.solve(1 / step - 1, z / step, z)
    u = unit(v)
    distance = (u - z).square().sum().item()
    return Envelope(unit.at_image(v) + distance / (2 * step), u, (z - u) / step)


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
