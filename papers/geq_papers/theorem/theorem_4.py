"""Theorem 4: a gradient step on R before the layer adds γR to the hidden objective."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from geq.errors import OptionError
from geq.solvers import Anderson, fixed_point
from geq_papers.theorem.conjugate import objective
from geq_papers.theorem.envelope import minimum_violation
from geq_papers.theorem.theorem_1 import images
from geq_papers.theorem.theorem_check import Comparison, TheoremCheck
from geq_papers.theorem.unit_layer import Unit

CLAIM = "the fixed point of f∘(I − γ∇R) minimises φ + γR"
TOLERANCE = 1e-8

Regulariser = Callable[[Tensor], Tensor]
"""R: a state to one number, convex and differentiable."""


def slope_of(regulariser: Regulariser, z: Float[Tensor, " state"]) -> Float[Tensor, " state"]:
    """∇R(z), by autograd."""
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        (slope,) = torch.autograd.grad(regulariser(z), z)
    return slope


def regularised_equilibrium(
    unit: Unit, regulariser: Regulariser, gamma: float, tol: float = 1e-11
) -> Float[Tensor, " state"]:
    """z = f(z − γ∇R(z)): proximal gradient on φ + γR with step 1, so γ∇R must be less than 2-Lipschitz."""
    unit.require_proximal()
    if not gamma > 0:
        raise OptionError(f"gamma must be above 0: got {gamma}")

    def mapping(z: Tensor) -> Tensor:
        return unit(z[0] - gamma * slope_of(regulariser, z[0])).unsqueeze(0)

    start = unit.weight.new_zeros(1, unit.weight.shape[1])
    return fixed_point(mapping, start, Anderson(), tol=tol, max_steps=5000).value[0]


def check_theorem_4(
    unit: Unit, regulariser: Regulariser, gamma: float, points: int = 4, seed: int = 0
) -> TheoremCheck:
    """Compare φ + γR at the fixed point of f∘(I − γ∇R) with its values elsewhere.

    The remark after the theorem allows prox_{γR} in place of I − γ∇R. That layer is another one: its fixed
    point minimises φ + M, with M the Moreau envelope of γR (with step 1), because z = prox_φ(y) and
    y = prox_{γR}(z) are the two halves of min φ(z) + γR(y) + ½‖z − y‖². The tests show the difference.

    >>> from geq.penalties import NonNegative
    >>> unit = Unit(torch.eye(2).double() / 2, torch.tensor([1.0, -3.0]).double(), NonNegative())
    >>> check_theorem_4(unit, lambda z: 0.5 * z.square().sum(), gamma=0.3).holds
    True
    """
    found = regularised_equilibrium(unit, regulariser, gamma)
    generator = torch.Generator().manual_seed(seed)
    others = images(unit, points, generator)

    def total(y: Tensor) -> float:
        return objective(unit, y) + gamma * regulariser(y).item()

    moved = unit(found - gamma * slope_of(regulariser, found))
    comparisons = (
        Comparison("the equation z = f(z − γ∇R(z))", (moved - found).norm().item(), TOLERANCE),
        Comparison("φ + γR there against elsewhere", minimum_violation(total, found, others), TOLERANCE),
    )
    return TheoremCheck("theorem 4", CLAIM, comparisons)
