"""What the equilibria of a network do on a given batch: attention β, γ, energy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geq.cell import ProximalCell
from geq.equilibrium import Equilibrium
from geq.model.network import Network
from geq.problem import Context
from geq.problem.similarity import BoundRadial
from geq.training.tolerance import measured_failures

SWITCHED_OFF = 0.1
"""A patch with a smaller weight counts as switched off."""


@dataclass(frozen=True)
class BranchProbe:
    """One equilibrium on one batch.

    Args:
        attention: β of every patch, ``(batch, groups, rows, columns)`` or ``(batch, patches)``; None for
            kernels without.
        gamma: mean γ; None for kernels without.
        energy: mean of the hidden objective at the equilibrium; None where there is none.
    """

    attention: Tensor | None
    gamma: float | None
    energy: float | None


@torch.no_grad()
def probe(model: Network, images: Float[Tensor, "b c h w"]) -> dict[str, BranchProbe]:
    """Look into each equilibrium; in evaluation mode, so that nothing is changed."""
    equilibria = model.equilibria()
    if not equilibria:
        return {}
    images = images.to(next(model.parameters()))  # device and floating type
    was_training = model.training
    model.eval()
    try:
        with measured_failures(model):
            inputs = model.inputs_of_equilibria(images)
            return {name: _look(layer, inputs[name]) for name, layer in equilibria.items() if name in inputs}
    finally:
        model.train(was_training)


def _look(layer: Equilibrium, x: Tensor) -> BranchProbe:
    if not isinstance(layer.cell, ProximalCell):
        return BranchProbe(None, None, None)
    energy = float(layer.energy(x).mean())
    context = layer.problem.inject(x)
    if not isinstance(context, Context) or not isinstance(context.similarity, BoundRadial):
        return BranchProbe(None, None, energy)
    return BranchProbe(layer.attention(x), float(context.similarity.gamma.mean()), energy)


def summarise(branches: dict[str, BranchProbe]) -> dict[str, float]:
    """Numbers for the log: over all branches, and γ for each."""
    weights = [branch.attention.flatten() for branch in branches.values() if branch.attention is not None]
    energies = [branch.energy for branch in branches.values() if branch.energy is not None]
    result: dict[str, float] = {}
    if weights:
        beta = torch.cat(weights)
        result |= {
            "beta_mean": float(beta.mean()),
            "beta_min": float(beta.min()),
            "beta_max": float(beta.max()),
            "beta_off": float((beta < SWITCHED_OFF).float().mean()),
        }
    result |= {f"gamma/{name}": branch.gamma for name, branch in branches.items() if branch.gamma is not None}
    if energies:
        result["energy"] = sum(energies)
    return {name: value for name, value in result.items() if value == value and abs(value) != float("inf")}
