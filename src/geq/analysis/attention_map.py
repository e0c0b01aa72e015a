"""Attention of an equilibrium for each patch: the weight β, and the patch's share of the hidden objective.

For the patch kernel S = Σᵢ e^{−γqᵢ}/2γ is a sum over patches, and ½‖z‖² one over positions, so that the
objective G = ½‖z‖² − S is a sum over the places of the map. For the linear kernel it is one over pixels.
Other kernels couple all positions, and have no such map.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from geq.cells import EnergyProblem
from geq.equilibrium import Equilibrium
from geq.kernels import BoundGaussian, BoundKernel, LinearKernel, PatchGaussianKernel

Map = Float[Tensor, "b rows columns"]


@dataclass(frozen=True)
class AttentionMaps:
    """
    Args:
        mean: β of each place, mean over the channel groups; None for kernels without.
        least: the same, of the channel group that is explained worst.
        energy: share of each place in G; None where G is no sum over places.
        missing: why something is None; empty if nothing is.
    """

    mean: Map | None
    least: Map | None
    energy: Map | None
    missing: str


@torch.no_grad()
def attention_maps(layer: Equilibrium, x: Any) -> AttentionMaps:
    """Look at the equilibrium for ``x``."""
    if not isinstance(layer.cell, EnergyProblem):
        return AttentionMaps(
            None, None, None, f"{type(layer.cell).__name__} has neither β nor an energy of places"
        )
    problem = layer.problem
    c = problem.inject(x)
    # The image, because only a prox is sure to satisfy the constraints to the last digit.
    z = layer.cell(layer.solve(x).value, c)
    energy = energy_map(problem, z, c)
    if isinstance(c, BoundGaussian) and isinstance(problem.kernel, PatchGaussianKernel):
        beta = problem.attention(z, c)
        return AttentionMaps(beta.mean(1), beta.amin(1), energy, "" if energy is not None else NO_SUM)
    kernel = type(problem.kernel).__name__
    words = f"the kernel {kernel} has no β of patches"
    return AttentionMaps(None, None, energy, words if energy is not None else f"{words}; {NO_SUM}")


NO_SUM = "its energy is no sum over places"


def energy_map(problem: EnergyProblem, z: Float[Tensor, " b *state"], c: Any) -> Map | None:
    """The share of each patch (pixel, for the linear kernel) in G(z; x); their sum is G."""
    if type(problem).score is not EnergyProblem.score or not isinstance(c, BoundKernel) or z.ndim != 4:
        return None
    u = c.W(z)
    if u.shape[-2:] != z.shape[-2:]:
        return None  # a strided W: states and features have different places
    own = (problem.penalty.cost(z) + 0.5 * z.square()).sum(1)
    if type(problem.kernel) is LinearKernel:
        return own - (c.v * z).sum(1) - 0.5 * u.square().sum(1)
    if not isinstance(problem.kernel, PatchGaussianKernel):
        return None
    assert isinstance(c, BoundGaussian)
    groups = u.shape[1] // problem.kernel.channel_split
    side = problem.kernel.patch
    q = c.distances(u).view(len(u), groups, u.shape[-2] // side, u.shape[-1] // side)
    gamma = c.gamma_of(q.unsqueeze(-1))
    positive = gamma > 0
    # For γ = 0 the limit up to its constant, as in the similarity itself.
    score = torch.where(positive, torch.exp(-gamma * q) / (2 * torch.where(positive, gamma, 1.0)), -0.5 * q)
    return F.avg_pool2d(own, side) * side**2 - score.sum(1)
