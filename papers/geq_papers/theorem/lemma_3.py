"""Lemma 3: a deep OptEq is a one-layer OptEq with several blocks and a permutation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geq_papers.theorem.composition import Composition
from geq_papers.theorem.theorem_check import Comparison, TheoremCheck

CLAIM = "the states between the layers solve z̃ = αW̃ᵀσ(W̃Pz̃ + ã) + (1 − α)Pz̃"
TOLERANCE = 1e-9


@dataclass(frozen=True)
class MultiBlock:
    """The map of eq. 7 on z̃ = [z₁, …, z_{L−1}, z₀]: W̃ is block diagonal, P shifts the blocks cyclically.

    Errata: eq. 7 prints σ(W̃z̃ + …), where z₁ = f₁(z₀) needs σ(W̃Pz̃ + …): block 1 is made from z₀, not from
    itself. The I at the end of the printed diagonal of W̃ does not belong there: L blocks, L weights.
    """

    deep: Composition

    @property
    def weight(self) -> Float[Tensor, "features blocks_state"]:
        """W̃. (The paper has μ = 1 here; where a unit has another scale, ``__call__`` divides by it.)"""
        return torch.block_diag(*(unit.weight for unit in self.deep.units))

    @property
    def bias(self) -> Float[Tensor, " features"]:
        return torch.cat([unit.bias for unit in self.deep.units])

    @property
    def permutation(self) -> Float[Tensor, "blocks_state blocks_state"]:
        """P: block i of Pz̃ is block i − 1 of z̃, and its first is the last."""
        size = self.deep.state_size
        return torch.eye(len(self.deep.units) * size, dtype=torch.float64).roll(size, 0)

    def __call__(self, blocks: Float[Tensor, "layers state"]) -> Float[Tensor, "layers state"]:
        """The right-hand side, with P inside of σ as well."""
        return self._map(blocks, self.permuted(blocks))

    def as_printed(self, blocks: Float[Tensor, "layers state"]) -> Float[Tensor, "layers state"]:
        """The right-hand side of eq. 7 as in the paper; for L > 1 an equilibrium does not solve it."""
        return self._map(blocks, blocks)

    def permuted(self, blocks: Float[Tensor, "layers state"]) -> Float[Tensor, "layers state"]:
        return (self.permutation @ blocks.flatten()).view_as(blocks)

    def _map(self, blocks: Tensor, seen: Tensor) -> Tensor:
        units, alpha = self.deep.units, self.deep.alpha
        features = (self.weight @ seen.flatten() + self.bias).split([len(unit.bias) for unit in units])
        sigma = torch.cat([unit.sigma(s) / unit.scale for unit, s in zip(units, features, strict=True)])
        return alpha * (self.weight.T @ sigma).view_as(blocks) + (1 - alpha) * self.permuted(blocks)


def check_lemma_3(deep: Composition) -> TheoremCheck:
    """Put the states between the layers, at the equilibrium, into the equation of the blocks.

    >>> from geq_papers.theorem.unit_layer import Unit
    >>> from geq.penalties import NonNegative
    >>> units = [Unit(w * torch.eye(2).double(), torch.ones(2).double(), NonNegative()) for w in (0.5, 0.9)]
    >>> check_lemma_3(Composition(tuple(units), alpha=0.8)).holds
    True
    """
    blocks = deep.blocks(deep.equilibrium())
    error = (MultiBlock(deep)(blocks) - blocks).norm().item() / (1 + blocks.norm().item())
    return TheoremCheck("lemma 3", CLAIM, (Comparison("residual of eq. 7", error, TOLERANCE),))
