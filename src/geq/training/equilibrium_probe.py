"""Measurements of a network's equilibria on a batch: attention β, γ, energy, feedback."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geq.cells import EnergyProblem
from geq.equilibrium import Equilibrium, ignore_failures
from geq.kernels import BoundGaussian, BoundKernel, PatchGaussianKernel
from geq.model.network import Network

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
        feedback: mean of ‖Wz‖/‖Ux + b‖ (of ‖WᵀWz‖/‖Ux + b‖ for kernels on the state): how much of an
            equilibrium there is. None for custom maps.
        distance: mean squared distance q of the patches at the equilibrium; None for kernels without.
        rank: effective rank of W_h; None for kernels without.
    """

    attention: Tensor | None = None
    gamma: float | None = None
    energy: float | None = None
    feedback: float | None = None
    distance: float | None = None
    rank: float | None = None


def effective_rank(matrix: Float[Tensor, "rows columns"]) -> float:
    """e^H, H the entropy of the squared singular values as shares: n for n equal ones, 1 for a single one.

    >>> round(effective_rank(torch.eye(3)), 6), round(effective_rank(torch.ones(3, 3)), 3)
    (3.0, 1.0)
    """
    shares = torch.linalg.svdvals(matrix.float()).square()
    shares = shares / shares.sum().clamp_min(torch.finfo(shares.dtype).tiny)
    return float(torch.special.entr(shares).sum().exp())


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
        with ignore_failures(model):
            inputs = model.inputs_of_equilibria(images)
            return {name: _look(layer, inputs[name]) for name, layer in equilibria.items() if name in inputs}
    finally:
        model.train(was_training)


def probe_with_batch_statistics(model: Network, images: Float[Tensor, "b c h w"]) -> dict[str, BranchProbe]:
    """:func:`probe` with batch norms that take the statistics of these images, as in a step of training.

    Running statistics describe no data before the first step, and lag behind the weights in the first dozens
    of steps. By them the distances of a network are many times too small or too large, so they cannot tell
    how far it has come since its start.
    """
    twin = copy.deepcopy(model)
    for module in twin.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean = module.running_var = None
    return probe(twin, images)


def _look(layer: Equilibrium, x: Tensor) -> BranchProbe:
    if not isinstance(layer.cell, EnergyProblem):
        return BranchProbe()
    problem = layer.problem
    z, c = layer.solve(x).value, problem.inject(x)
    assert isinstance(z, Tensor)
    found = BranchProbe(energy=float(layer.energy(x).mean()))
    if not isinstance(c, BoundKernel):
        return found
    u = c.W(z)
    pulled = u if problem.kernel.acts_on == "features" else c.W.adjoint(u)
    found = replace(found, feedback=float((size(pulled) / size(c.v).clamp_min(1e-30)).mean()))
    if not isinstance(c, BoundGaussian):
        return found
    kernel = c.kernel
    return replace(
        found,
        attention=c.attention(u),
        gamma=float(c.gamma.mean()),
        distance=float(c.distances(u).mean()),
        rank=effective_rank(kernel.projection) if isinstance(kernel, PatchGaussianKernel) else None,
    )


def size(maps: Float[Tensor, " b *map"]) -> Float[Tensor, " b"]:
    return maps.flatten(1).norm(dim=1)


def summarise(branches: dict[str, BranchProbe]) -> dict[str, float]:
    """Numbers for the log: of β and the energy over all branches, the others for each."""
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
    for name, branch in branches.items():
        for kind in ("gamma", "feedback", "distance", "rank"):
            number = getattr(branch, kind)
            if number is not None:
                result[f"{kind}/{name}"] = number
    if energies:
        result["energy"] = sum(energies)
    return {name: value for name, value in result.items() if value == value and abs(value) != float("inf")}
