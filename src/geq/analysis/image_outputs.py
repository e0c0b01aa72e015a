"""Outputs of a network for every image of a set: logits, energy and attention β of each equilibrium."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from geq.analysis.settings import Progress, silent
from geq.cells import EnergyProblem
from geq.data.loader import BatchLoader
from geq.equilibrium import Equilibrium, ignore_failures
from geq.kernels import BoundGaussian
from geq.model.network import Network


@dataclass(frozen=True)
class Observation:
    """One row per image.

    Args:
        logits, labels: of the images.
        energy: G(z*; x) by the name of the equilibrium; empty where nothing is minimised.
        attention: mean of β over the patches, likewise; empty for kernels without.
        unconverged: share of images that missed the tolerance somewhere; None without equilibria.
    """

    logits: Float[Tensor, "n classes"]
    labels: Int64[Tensor, " n"]
    energy: dict[str, Float[Tensor, " n"]]
    attention: dict[str, Float[Tensor, " n"]]
    unconverged: float | None


@torch.no_grad()
def observe(
    model: Network, batches: BatchLoader, progress: Progress = silent, what: str = "images"
) -> Observation:
    """Look at every image once; one solve per batch gives all of it."""
    like = next(model.parameters())
    rows: list[tuple[Tensor, Tensor, dict[str, Tensor], dict[str, Tensor], Tensor]] = []
    model.eval()
    with ignore_failures(model), watched(model) as seen:
        for number, (images, labels) in enumerate(batches):
            seen.clear()
            logits = model(images.to(like))
            energy, attention = {}, {}
            missed = torch.zeros(len(labels), dtype=torch.bool)
            for name, (layer, x, z) in seen.items():
                if layer.last_solution is not None and len(layer.last_solution.converged) == len(labels):
                    missed |= ~layer.last_solution.converged.cpu()
                found = look(layer, x, z)
                if found is not None:
                    energy[name] = found[0].double().cpu()
                    if found[1] is not None:
                        attention[name] = found[1].double().cpu()
            rows.append((logits.double().cpu(), labels, energy, attention, missed))
            progress(what, number + 1, len(batches))
    return Observation(
        torch.cat([row[0] for row in rows]),
        torch.cat([row[1] for row in rows]),
        {name: torch.cat([row[2][name] for row in rows]) for name in rows[0][2]},
        {name: torch.cat([row[3][name] for row in rows]) for name in rows[0][3]},
        float(torch.cat([row[4] for row in rows]).double().mean()) if model.equilibria() else None,
    )


def look(layer: Equilibrium, x: Any, z: Any) -> tuple[Tensor, Tensor | None] | None:
    """Energy and mean β of each sample at the output z; None where the layer minimises nothing."""
    if not isinstance(layer.cell, EnergyProblem):
        return None
    equation = layer.problem.equation(x)
    context = equation.context
    if layer.gradient.iterations is None:
        z = equation(z)  # only a prox is sure to satisfy the constraints to the last digit
    energy = layer.problem.energy(z, context)
    if not isinstance(context, BoundGaussian):
        return energy, None
    return energy, layer.problem.attention(z, context).flatten(1).mean(1)


@contextmanager
def watched(model: Network) -> Iterator[dict[str, tuple[Equilibrium, Any, Any]]]:
    """Inside, the mapping holds what each equilibrium was last given and what it gave."""
    seen: dict[str, tuple[Equilibrium, Any, Any]] = {}

    def remember(name: str) -> Any:
        return lambda layer, given, z: seen.__setitem__(name, (layer, given[0], z))

    handles = [layer.register_forward_hook(remember(name)) for name, layer in model.equilibria().items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
