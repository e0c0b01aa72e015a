"""Corollary 1: two layers hide a convex problem with an explicit objective."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from geq.errors import OptionError
from geq_papers.theorem.composition import Composition
from geq_papers.theorem.table_1 import skip_gradient, skip_objective
from geq_papers.theorem.theorem_1 import images
from geq_papers.theorem.theorem_check import Comparison, TheoremCheck

CLAIM = "for L = 2 the equilibrium minimises αM_{φ₁}^{1−α}(z₁) + αM_{φ₂}^{1−α}(z₀) + ½‖z₁ − z₀‖²"
TOLERANCE = 1e-8


def require_two(deep: Composition) -> None:
    if len(deep.units) != 2:
        raise OptionError(
            f"corollary 1 is about two layers, where I − P is symmetric: got {len(deep.units)}; for more "
            "there is an inclusion (theorem 2) but no objective"
        )
    deep.require_assumption_2()


def two_block_objective(deep: Composition, blocks: Float[Tensor, "2 state"]) -> float:
    """The objective at z̃ = [z₁, z₀]."""
    require_two(deep)
    values = (skip_objective(unit, deep.alpha, z) for unit, z in zip(deep.units, blocks, strict=True))
    return sum(values) + 0.5 * (blocks[0] - blocks[1]).square().sum().item()


def two_block_gradient(deep: Composition, blocks: Float[Tensor, "2 state"]) -> Float[Tensor, "2 state"]:
    """Its gradient, for α < 1."""
    require_two(deep)
    rows = [skip_gradient(unit, deep.alpha, z) for unit, z in zip(deep.units, blocks, strict=True)]
    return torch.stack(rows) + blocks - blocks.flip(0)


def check_corollary_1(deep: Composition, points: int = 4, seed: int = 0) -> TheoremCheck:
    """Compare the objective at the equilibrium with its values elsewhere.

    >>> from geq_papers.theorem.unit_layer import Unit
    >>> from geq.penalties import NonNegative
    >>> units = [Unit(w * torch.eye(2).double(), torch.ones(2).double(), NonNegative()) for w in (0.5, 0.9)]
    >>> check_corollary_1(Composition(tuple(units), alpha=0.8)).holds
    True
    """
    require_two(deep)
    blocks = deep.blocks(deep.equilibrium())
    here = two_block_objective(deep, blocks)
    generator = torch.Generator().manual_seed(seed)
    first, second = (images(unit, points, generator) for unit in deep.units)
    lower = convex = 0.0
    for pair in zip(first, second, strict=True):
        other = torch.stack(pair)
        there, half, near = (
            two_block_objective(deep, torch.lerp(blocks, other, weight)) for weight in (1.0, 0.5, 0.01)
        )
        lower = max(lower, here - there, here - near)
        convex = max(convex, half - (here + there) / 2)
    comparisons = [
        Comparison("objective at the equilibrium against elsewhere", lower, TOLERANCE),
        Comparison("convexity at midpoints", convex, TOLERANCE),
    ]
    if deep.alpha < 1:
        slope = two_block_gradient(deep, blocks).norm().item() / (1 + blocks.norm().item())
        comparisons.append(Comparison("gradient at the equilibrium", slope, TOLERANCE))
    return TheoremCheck("corollary 1", CLAIM, tuple(comparisons))
