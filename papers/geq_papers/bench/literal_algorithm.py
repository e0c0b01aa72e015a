"""Algorithm 1 of GEQ written as it is printed: the reference that the fast layer is measured and tested
against.

Nothing here is clever: the state z is iterated, patches are cut by reshape and permute, W_h and then W_hᵀ are
applied, and autograd does the rest. Weights, norm rule, injection and γ are those of the layer, so that both
sides solve the same equation and have the same parameters to differentiate.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from geq.equilibrium import Equilibrium
from geq.errors import OptionError
from geq.kernels import BoundGaussian, PatchGaussianKernel


def cut(maps: Tensor, patch: int, split: int) -> Tensor:
    """``b (g c) (h p) (w q) -> (b g h w) (c p q)``."""
    b, c, h, w = maps.shape
    parts = maps.reshape(b, c // split, split, h // patch, patch, w // patch, patch)
    return parts.permute(0, 1, 3, 5, 2, 4, 6).reshape(-1, split * patch * patch)


def join(rows: Tensor, shape: torch.Size, patch: int, split: int) -> Tensor:
    """The inverse of :func:`cut`, to maps of ``shape``."""
    b, c, h, w = shape
    parts = rows.reshape(b, c // split, h // patch, w // patch, split, patch, patch)
    return parts.permute(0, 1, 4, 2, 5, 3, 6).reshape(b, c, h, w)


@dataclass(frozen=True)
class LiteralMap:
    """z ↦ σ(Wᵀ unpatch(e^{−γ‖h‖²} hW_hᵀ)), h = patch(Ux − Wz)W_h, for one input."""

    injected: Tensor
    weight: Tensor
    projection: Tensor
    gamma: Tensor
    patch: int
    split: int

    @classmethod
    def of(cls, layer: Equilibrium, x: Tensor) -> LiteralMap:
        """The map that ``layer`` has for x."""
        problem = layer.problem
        similarity = problem.kernel
        if not isinstance(similarity, PatchGaussianKernel):
            raise OptionError(f"algorithm 1 has a kernel on patches: got {type(similarity).__name__}")
        injected = problem.U(x).contiguous()
        bound = similarity.bind(injected)
        assert isinstance(bound, BoundGaussian)
        return cls(
            injected=injected,
            weight=problem.W.bind(injected).weight,
            projection=similarity.projection.to(injected.dtype),
            gamma=bound.gamma.expand(len(x), 1).reshape(-1),
            patch=similarity.patch,
            split=similarity.channel_split,
        )

    def start(self) -> Tensor:
        """z = 0."""
        b, _, h, w = self.injected.shape
        return self.injected.new_zeros(b, self.weight.shape[1], h, w)

    def __call__(self, z: Tensor) -> Tensor:
        margin = self.weight.shape[-1] // 2
        sizes = self.patch, self.split
        difference = cut(self.injected, *sizes) - cut(F.conv2d(z, self.weight, padding=margin), *sizes)
        hidden = difference @ self.projection
        square = hidden.pow(2).sum(-1, keepdim=True)
        gamma = self.gamma.repeat_interleave(len(hidden) // len(self.gamma)).unsqueeze(1)
        rows = torch.exp(-gamma * square) * (hidden @ self.projection.t())
        message = join(rows, self.injected.shape, *sizes)
        return F.relu(F.conv_transpose2d(message, self.weight, padding=margin))
