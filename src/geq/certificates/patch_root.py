"""The root of W_hW_hᵀ on every patch of a map."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class PatchRoot:
    """The symmetric root R of W_hW_hᵀ, and how maps are cut: ‖R·d‖ = ‖dW_h‖ for every patch d."""

    root: Float[Tensor, "entries entries"]
    patch: int
    channel_split: int

    @classmethod
    def of(cls, projection: Float[Tensor, "entries hidden"], patch: int, channel_split: int) -> PatchRoot:
        gram = (projection @ projection.t()).detach().double()
        values, vectors = torch.linalg.eigh(gram)
        return cls((vectors * values.clamp_min(0).sqrt()) @ vectors.t(), patch, channel_split)

    def rows(self, matrix: Tensor, columns: int) -> Tensor:
        """R applied to the rows of a strip's matrix; rows come as (row, column, channel)."""
        p, split = self.patch, self.channel_split
        width = matrix.shape[1]
        cut = matrix.reshape(p, columns // p, p, -1, split, width).permute(1, 3, 4, 0, 2, 5)
        return (self.root.to(matrix.dtype) @ cut.reshape(-1, split * p * p, width)).reshape(-1, width)

    def maps(self, maps: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        """R applied to every patch of maps."""
        p, split = self.patch, self.channel_split
        b, c, h, w = maps.shape
        cut = maps.reshape(b, c // split, split, h // p, p, w // p, p).permute(0, 1, 3, 5, 2, 4, 6)
        mixed = (cut.flatten(4) @ self.root.to(maps.dtype)).reshape(cut.shape)
        return mixed.permute(0, 1, 4, 2, 5, 3, 6).reshape(b, c, h, w)
