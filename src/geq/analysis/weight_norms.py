"""The norms of a layer that every bound is made of: W, W_hᵀW jointly, and the input map that U really is.

In evaluation an :func:`~geq.layers.energy.injection` is affine: its norm divides by running statistics, so
x ↦ scale·(Ux + b − mean)/√(var + ε) has the kernel of U with scaled rows, and a bias of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from geq.cells import EnergyProblem
from geq.certificates.enclosure import QUICK, THOROUGH, Enclosure, convolution_enclosure, matrix_enclosure
from geq.certificates.patch_root import PatchRoot
from geq.equilibrium import Equilibrium
from geq.kernels import PatchGaussianKernel
from geq.layers.energy import Scale
from geq.operators import Convolution, Dense, Operator
from geq.operators.operator import Size


@dataclass(frozen=True)
class AffineMap:
    """x ↦ Ux + b with a matrix, or with a kernel on maps of ``size``; ``operator`` knows its padding."""

    operator: Operator
    weight: Tensor
    bias: Tensor
    size: Size | None

    def norm(self, root: PatchRoot | None, budget: float = QUICK) -> Enclosure:
        """‖U‖, or ‖W_hᵀU‖ on patches."""
        if isinstance(self.operator, Convolution):
            assert self.size is not None
            return convolution_enclosure(self.weight, *self.size, self.operator.padding, root, budget)
        return matrix_enclosure(self.weight)

    @property
    def bias_norm(self) -> float:
        """‖b‖ of the whole map: a channel's bias stands at every pixel."""
        pixels = 1 if self.size is None else self.size[0] * self.size[1]
        return float(self.bias.norm()) * pixels**0.5


@torch.no_grad()
def input_map(module: nn.Module, size: Size | None) -> AffineMap | None:
    """Return the affine map of a module in the place of U in evaluation; None if not known to be affine."""
    parts = list(module) if isinstance(module, nn.Sequential) and len(module) else [module]
    linear, scale, shift = parts[0], torch.ones((), dtype=torch.float64), torch.zeros(())
    for part in parts[1:]:
        if isinstance(part, Scale):
            scale = part.factor * scale
        elif (
            isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d))
            and not part.affine
            and part is parts[1]
            and part.running_mean is not None
            and part.running_var is not None
        ):
            scale = scale / (part.running_var.double() + part.eps).sqrt()
            shift = -part.running_mean.double()
        else:
            return None
    if not isinstance(linear, (Convolution, Dense)):
        return None
    weight = linear.effective_weight(size).detach().double()
    weight = linear.full_kernel(weight) if isinstance(linear, Convolution) else weight
    bias = weight.new_zeros(len(weight)) if linear.bias is None else linear.bias.detach().double()
    rows = scale.expand(len(weight)).reshape(-1, *[1] * (weight.dim() - 1))
    return AffineMap(linear, weight * rows, (bias + shift) * scale, size)


@dataclass(frozen=True)
class LayerNorms:
    """
    Args:
        W: bounds of ‖W‖.
        projection: ‖W_h‖; None without patches.
        feedback: bounds of ‖W_hᵀW‖ taken jointly; those of ‖W‖ without patches.
        injection: bounds of ‖W_hᵀU‖ (of ‖U‖ without patches); None where U is not known to be affine.
        bias: ‖b‖.
    """

    W: Enclosure
    projection: float | None
    feedback: Enclosure
    injection: Enclosure | None
    bias: float

    @property
    def product(self) -> float:
        """‖W_h‖·‖W‖, which the joint norm does not exceed."""
        return self.W.upper * (1.0 if self.projection is None else self.projection)

    def as_mapping(self) -> dict[str, Any]:
        def pair(found: Enclosure | None) -> dict[str, Any] | None:
            if found is None:
                return None
            return {"lower": found.lower, "upper": found.upper, "proof": found.method}

        return {
            "W": pair(self.W),
            "W_h": self.projection,
            "feedback": pair(self.feedback),
            "product": self.product,
            "injection": pair(self.injection),
            "bias": self.bias,
        }


def has_norms(layer: Equilibrium) -> bool:
    """Return whether the layer is the map of a hidden problem with a W of its own."""
    return isinstance(layer.cell, EnergyProblem) and type(layer.problem) is EnergyProblem


@torch.no_grad()
def layer_norms(problem: EnergyProblem, size: Size | None, budget: float = THOROUGH) -> LayerNorms:
    """All norms of a problem's operators, on maps of this size."""
    similarity, U = problem.kernel, input_map(problem.U, size)
    patched = isinstance(similarity, PatchGaussianKernel)
    # With patches the verdicts rest on the joint norm; a percent in the others is not worth the time.
    W = problem.W.norm_enclosure(size, QUICK if patched else budget)
    root, projection, feedback = None, None, W
    if isinstance(similarity, PatchGaussianKernel):
        projection = float(torch.linalg.matrix_norm(similarity.projection.double(), 2))
        root = PatchRoot.of(similarity.projection, similarity.patch, similarity.channel_split)
        feedback = problem.feedback_enclosure(size, budget)
        if feedback.upper > projection * W.upper:
            feedback = Enclosure(feedback.lower, projection * W.upper, W.method)
    return LayerNorms(
        W,
        projection,
        feedback,
        None if U is None else U.norm(root, QUICK),
        0.0 if U is None else U.bias_norm,
    )
