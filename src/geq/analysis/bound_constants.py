"""The constants that the propositions are stated in, measured for a layer on inputs.

The propositions speak of z = σ(βWᵀ(Ux + b − Wz)). With patches the same holds for W_hᵀW in the place of W and
W_hᵀU in that of U, with one β per patch; all norms below are taken so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from geq.analysis.analysed_network import solved_tightly
from geq.analysis.weight_norms import LayerNorms, has_norms, layer_norms
from geq.equilibrium import Equilibrium
from geq.kernels import BoundGaussian, BoundKernel, GaussianKernel, LinearKernel
from geq.operators.operator import size_of


def unsuited(layer: Equilibrium) -> str | None:
    """Return the reason why the propositions do not apply to this layer; None if they do."""
    if not has_norms(layer):
        return f"{type(layer.cell).__name__} is not the map of a kernel"
    similarity = layer.problem.kernel
    if not isinstance(similarity, (GaussianKernel, LinearKernel)):
        return f"the propositions are about Gaussian and linear kernels, not {type(similarity).__name__}"
    return None


@dataclass(frozen=True)
class Constants:
    """
    Args:
        gaussian: whether the kernel is Gaussian (else linear).
        norms: of the operators.
        input_norm: B_x, the largest ‖x‖.
        state_norm: B_z, the largest ‖z*‖.
        beta_max: largest attention weight at an equilibrium (1 for the linear kernel).
        gamma: γ; None where it differs between inputs, which the propositions do not cover.
        radius: the largest ‖(x̃ᵢ − z̃ᵢ)W_h‖ at an equilibrium.
    """

    gaussian: bool
    norms: LayerNorms
    input_norm: float
    state_norm: float
    beta_max: float
    gamma: float | None
    radius: float

    @property
    def feedback(self) -> float:
        """Upper bound of ‖W‖ (jointly with W_h)."""
        return self.norms.feedback.upper

    @property
    def injection(self) -> float:
        """Upper bound of ‖U‖ (jointly with W_h); infinite where U is not affine."""
        return float("inf") if self.norms.injection is None else self.norms.injection.upper

    @property
    def mu(self) -> float:
        """μ, the largest of the norms."""
        return max(self.feedback, self.injection)

    @property
    def bound(self) -> float:
        """B, which bounds inputs and outputs."""
        return max(self.input_norm, self.state_norm)

    def as_mapping(self) -> dict[str, Any]:
        return {
            "mu": self.mu,
            "W": self.feedback,
            "U": self.injection,
            "bias": self.norms.bias,
            "B": self.bound,
            "input_norm": self.input_norm,
            "state_norm": self.state_norm,
            "beta_max": self.beta_max,
            "gamma": self.gamma,
            "radius": self.radius,
        }


@torch.no_grad()
def measure(layer: Equilibrium, x: Tensor, norms: LayerNorms | None = None) -> Constants:
    """The constants of a layer on the inputs ``x``, at equilibria found to ten digits."""
    problem = layer.problem
    c = problem.inject(x)
    assert isinstance(c, BoundKernel)
    norms = layer_norms(problem, size_of(x)) if norms is None else norms
    z = solved_tightly(layer).solve(x).value
    assert isinstance(z, Tensor)
    gaussian, beta, gamma, radius = False, 1.0, None, 0.0
    if isinstance(c, BoundGaussian):
        gaussian = True
        q = c.distances(c.W(z))
        radius = float(q.max().clamp_min(0).sqrt())
        beta = float(torch.exp(-c.gamma * q).max())
        if c.gamma.dim() == 0:
            gamma = float(c.gamma)
    sizes = [float(t.flatten(1).norm(dim=1).max()) for t in (x, z)]
    return Constants(gaussian, norms, sizes[0], sizes[1], beta, gamma, radius)
