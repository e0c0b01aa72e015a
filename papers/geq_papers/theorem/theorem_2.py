"""Theorem 2: the equilibrium of a deep OptEq solves a monotone inclusion."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from geq.errors import InputError
from geq_papers.theorem.composition import Composition
from geq_papers.theorem.conjugate import conjugate
from geq_papers.theorem.table_1 import skip_gradient
from geq_papers.theorem.theorem_check import Comparison, TheoremCheck

CLAIM = "0 ∈ ∂Φ(z̃) + (I − P)z̃ with Φ(z̃) = Σ αM_{φ_i}^{1−α}(z_i)"
TOLERANCE = 1e-8


def inclusion_residual(deep: Composition, blocks: Float[Tensor, "layers state"]) -> float:
    """Return the distance of 0 from ∂Φ(z̃) + (I − P)z̃ (eq. 8), in the Euclidean norm over all blocks.

    For α < 1 the envelopes are smooth and it is ‖∇Φ(z̃) + (I − P)z̃‖. For α = 1, Φ = Σφ_i has many
    subgradients (or none: infinite); the result is then the distance to one of them, found from z_{i−1},
    hence an upper bound that vanishes exactly on the solutions.

    Args:
        blocks: z̃ = [z₁, …, z_{L−1}, z₀].
    """
    deep.require_assumption_2()
    if blocks.shape != (len(deep.units), deep.state_size):
        raise InputError(
            f"z̃ must have one row per layer: expected {(len(deep.units), deep.state_size)}, got "
            f"{tuple(blocks.shape)}"
        )
    rows = []
    for unit, z, before in zip(deep.units, blocks, blocks.roll(1, 0), strict=True):
        if deep.alpha < 1:
            rows.append(skip_gradient(unit, deep.alpha, z) + z - before)
            continue
        # ∂φ(z) + z − before = ∂ψ*(z) − before
        found = conjugate(unit, z, start=before)
        if found.value == torch.inf:
            return torch.inf
        rows.append(found.maximiser - before)
    return torch.stack(rows).norm().item()


def check_theorem_2(deep: Composition, seed: int = 0) -> TheoremCheck:
    """The inclusion at the equilibrium; and, so that the check can fail, that it is not met elsewhere."""
    blocks = deep.blocks(deep.equilibrium())
    generator = torch.Generator().manual_seed(seed)
    noise = 0.1 * torch.randn(blocks.shape, generator=generator, dtype=torch.float64)
    here = inclusion_residual(deep, blocks)
    # z̃ ↦ ∂Φ + (I − P)z̃ is monotone: ⟨residual at z̃ + d, d⟩ ≥ 0 for every d.
    monotone = 0.0
    if deep.alpha < 1:
        moved = blocks + noise
        gradient = torch.stack(
            [skip_gradient(u, deep.alpha, z) for u, z in zip(deep.units, moved, strict=True)]
        )
        monotone = max(0.0, -((gradient + moved - moved.roll(1, 0)) * noise).sum().item())
    comparisons = (
        Comparison("distance of 0 from the inclusion", here / (1 + blocks.norm().item()), TOLERANCE),
        Comparison("monotonicity of the inclusion at a neighbour", monotone, TOLERANCE),
    )
    return TheoremCheck("theorem 2", CLAIM, comparisons)
