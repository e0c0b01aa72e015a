"""Cut feature maps into patches and put them together again."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def to_patches(
    maps: Float[Tensor, "batch channels height width"], patch: int, channel_split: int
) -> Float[Tensor, "batch groups rows columns entries"]:
    """Cut ``patch``×``patch`` pixels of ``channel_split`` channels; an entry is (channel, row, column)."""
    b, c, h, w = maps.shape
    cut = maps.reshape(b, c // channel_split, channel_split, h // patch, patch, w // patch, patch)
    return cut.permute(0, 1, 3, 5, 2, 4, 6).flatten(4)


def from_patches(
    patches: Float[Tensor, "batch groups rows columns entries"], patch: int, channel_split: int
) -> Float[Tensor, "batch channels height width"]:
    """Invert :func:`to_patches`."""
    b, groups, rows, columns, _ = patches.shape
    cut = patches.reshape(b, groups, rows, columns, channel_split, patch, patch).permute(0, 1, 4, 2, 5, 3, 6)
    return cut.reshape(b, groups * channel_split, rows * patch, columns * patch)
