"""Theorem 1: the unit layer is a proximal map, and its fixed point minimises φ."""

from __future__ import annotations

import torch
from torch import Tensor

from geq.errors import ConvergenceError
from geq.penalties import NonNegative
from geq_papers.theorem.composition import Composition
from geq_papers.theorem.conjugate import conjugate, objective, relu_objective
from geq_papers.theorem.envelope import minimum_violation, prox_violation
from geq_papers.theorem.theorem_check import Comparison, TheoremCheck
from geq_papers.theorem.unit_layer import Unit

CLAIM = "f(z) = (1/μ)Wᵀσ(Wz + a) is prox_φ with φ = ψ* − ½‖·‖², and z = f(z) minimises φ"
TOLERANCE = 1e-9


def images(unit: Unit, count: int, generator: torch.Generator) -> list[Tensor]:
    """Random points where φ is finite: images of f, and mixtures of them."""
    states = 2 * torch.randn(count, unit.weight.shape[1], generator=generator, dtype=torch.float64)
    found = unit(states)
    mixed = torch.lerp(found, found.flip(0), torch.rand(count, 1, generator=generator, dtype=torch.float64))
    return [*found, *mixed]


def equilibrium_if_any(unit: Unit) -> Tensor | None:
    """The fixed point of f; None where ‖W‖² = μ and there is none, as for f(z) = z + 1: φ has no minimum."""
    try:
        return Composition((unit,), alpha=1.0).equilibrium()
    except ConvergenceError:
        if unit.rate < 1 - 1e-6:
            raise
        return None


def check_theorem_1(unit: Unit, points: int = 3, seed: int = 0) -> TheoremCheck:
    """Compare f with the prox of φ at random points, and the equilibrium with other points of dom φ.

    φ is evaluated as a numerical conjugate, which knows nothing of the claim. Raises
    :class:`~geq.errors.OptionError` where μ < ‖W‖², the condition of the theorem.

    >>> from geq.penalties import NonNegative
    >>> unit = Unit(torch.eye(2).double() / 2, torch.tensor([1.0, -3.0]).double(), NonNegative())
    >>> check_theorem_1(unit).holds
    True
    """
    unit.require_proximal()
    generator = torch.Generator().manual_seed(seed)
    others = images(unit, points, generator)

    def phi(y: Tensor) -> float:
        return objective(unit, y)

    exact = gap = prox = convex = closed = 0.0
    invertible = isinstance(unit.activation, NonNegative) and _is_invertible(unit.weight)
    for _ in range(points):
        z = 2 * torch.randn(unit.weight.shape[1], generator=generator, dtype=torch.float64)
        u = unit(z)
        at_u = conjugate(unit, u)
        numerical = at_u.value - 0.5 * (u @ u).item()
        exact = max(exact, abs(numerical - unit.at_image(z)))
        gap = max(gap, min(abs(at_u.gap), at_u.gradient_norm))
        prox = max(prox, prox_violation(phi, z, u, others))
        convex = max(convex, *(phi((u + y) / 2) - (numerical + phi(y)) / 2 for y in others))
        if invertible:
            closed = max(closed, abs(relu_objective(unit, u) - numerical))
    comparisons = [
        Comparison("certificate of ψ*", gap, TOLERANCE),
        Comparison("φ(f(z)), numerical against Fenchel–Young", exact, TOLERANCE),
        Comparison("f(z) against every other minimiser of φ + ½‖· − z‖²", prox, TOLERANCE),
        Comparison("convexity of φ at midpoints", convex, TOLERANCE),
    ]
    if invertible:
        comparisons.append(Comparison("φ, eq. 4 against numerical", closed, TOLERANCE))
    equilibrium = equilibrium_if_any(unit)
    if equilibrium is not None:
        lower = minimum_violation(phi, equilibrium, others)
        comparisons.append(Comparison("φ at the equilibrium against φ elsewhere", lower, TOLERANCE))
    return TheoremCheck("theorem 1", CLAIM, tuple(comparisons))


def _is_invertible(weight: Tensor) -> bool:
    return weight.shape[0] == weight.shape[1] and torch.linalg.cond(weight).item() < 1e6
