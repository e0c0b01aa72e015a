"""Theorem 3: as α → 0 a deep OptEq becomes a wide one-layer OptEq."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geq.errors import OptionError
from geq_papers.theorem.composition import Composition
from geq_papers.theorem.conjugate import objective
from geq_papers.theorem.envelope import minimum_violation
from geq_papers.theorem.theorem_1 import images
from geq_papers.theorem.theorem_check import Comparison, TheoremCheck
from geq_papers.theorem.unit_layer import Unit

CLAIM = "as α → 0 all blocks tend to y with Ly = Σf_i(y), the minimiser of Σφ_i(x_i) + ½‖x_i − y‖²"
TOLERANCE = 1e-9
ALPHAS = (1e-1, 1e-2, 1e-3, 1e-4)


def wide_unit(units: Sequence[Unit]) -> Unit:
    """z ↦ (1/L)Σf_i(z) as one unit: the weights stacked, with μ = L. Its fixed point is the limit."""
    if len({(str(unit.activation), unit.scale) for unit in units}) > 1:
        raise OptionError("a wide unit has one activation and one scale: got units that differ in them")
    weight, bias = torch.cat([unit.weight for unit in units]), torch.cat([unit.bias for unit in units])
    return Unit(weight, bias, units[0].activation, units[0].scale * len(units))


@dataclass(frozen=True)
class Approach:
    """One α: how far the blocks are from the limit and from one another, and how far they can be.

    Attributes:
        distance: max_i ‖z_i(α) − y‖.
        spread: max_ij ‖z_i(α) − z_j(α)‖.
        bound: an upper bound of ``distance`` that is α times a bounded number. With g_i = f_i − I, every −g_i
            is 1-Lipschitz and (1 − ‖W_i‖²)-strongly monotone, and Σg_i(z_{i−1}) = 0. So
            κ‖z₀ − y‖ ≤ ‖Σg_i(z₀)‖ ≤ Σ‖z₀ − z_{i−1}‖ ≤ αΣ_iΣ_{j<i}‖g_j(z_{j−1})‖ with κ = Σ(1 − ‖W_i‖²), and
            the other blocks are within αΣ‖g_j(z_{j−1})‖ of z₀.
    """

    alpha: float
    distance: float
    spread: float
    bound: float


def approach(units: Sequence[Unit], alphas: Sequence[float] = ALPHAS) -> list[Approach]:
    """Distance from the limit against α: the rate of theorem 3, which the paper does not give, is linear."""
    limit = Composition((wide_unit(units),), 1.0).equilibrium()
    kappa = sum(1 - unit.rate for unit in units)
    found = []
    for alpha in alphas:
        deep = Composition(tuple(units), alpha)
        deep.require_assumption_2()
        if kappa <= 1e-12:
            raise OptionError(
                "theorem 3 needs one ‖W_i‖² < μ: got ‖W_i‖² = μ for all, and a limit need not exist"
            )
        z = deep.equilibrium(start=limit)
        blocks = deep.blocks(z)
        before = blocks.roll(1, 0)
        moves = [(unit(state) - state).norm().item() for unit, state in zip(units, before, strict=True)]
        partial = sum(sum(moves[:index]) for index in range(len(units)))
        found.append(
            Approach(
                alpha,
                (blocks - limit).norm(dim=1).max().item(),
                torch.cdist(blocks, blocks).max().item(),
                alpha * (partial / kappa + sum(moves)),
            )
        )
    return found


def fitted_order(found: Sequence[Approach]) -> float:
    """Slope of log distance over log α; infinite where the distance is only rounding."""
    pairs = [(a.alpha, a.distance) for a in found if a.distance > 1e-12]
    if len(pairs) < 2:
        return math.inf
    logs = torch.tensor(pairs, dtype=torch.float64).log()
    centred = logs - logs.mean(0)
    return (centred[:, 0] @ centred[:, 1] / centred[:, 0].square().sum()).item()


def joint_objective(units: Sequence[Unit], parts: Float[Tensor, "layers_and_one state"]) -> float:
    """Σφ_i(x_i) + ½‖x_i − y‖² at [x₁, …, x_L, y]."""
    y = parts[-1]
    pairs = zip(units, parts[:-1], strict=True)
    return sum(objective(unit, x) + 0.5 * (x - y).square().sum().item() for unit, x in pairs)


def check_theorem_3(
    units: Sequence[Unit], alphas: Sequence[float] = ALPHAS, points: int = 3, seed: int = 0
) -> TheoremCheck:
    """Distances against their linear bound, the fitted order, and the joint problem at the limit."""
    found = approach(units, alphas)
    limit = Composition((wide_unit(units),), 1.0).equilibrium()
    best = torch.stack([*(unit(limit) for unit in units), limit])
    generator = torch.Generator().manual_seed(seed)
    parts = [images(unit, points, generator) for unit in units]
    others = [torch.stack([*row, sum(row) / len(row)]) for row in zip(*parts, strict=True)]
    lower = minimum_violation(
        lambda flat: joint_objective(units, flat.view_as(best)), best.flatten(), [o.flatten() for o in others]
    )
    order = fitted_order(found)
    comparisons = (
        Comparison("limit as minimiser of the joint problem", lower, TOLERANCE),
        Comparison("y against the mean of the x_i", (best[:-1].mean(0) - limit).norm().item(), TOLERANCE),
        Comparison("distance above its bound", max(0.0, *(a.distance - a.bound for a in found)), TOLERANCE),
        Comparison("fitted order in α below 1", max(0.0, 1 - order), 0.1),
    )
    return TheoremCheck("theorem 3", CLAIM, comparisons)
