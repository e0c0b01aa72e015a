"""Random convolutions whose singular values are all 1.

A random weight has a few large singular values and many small ones, so that a bound on the largest leaves
most directions with hardly any feedback. If all are alike, the same bound allows the most in every direction.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def orthogonal_matrix(size: int) -> Float[Tensor, "size size"]:
    return torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0]


def isometric_kernel(out_channels: int, in_channels: int, side: int) -> Float[Tensor, "out in side side"]:
    """Kernel of a convolution A that is an isometry with circular padding: A Aᵀ = 1 or AᵀA = 1.

    With P and Q orthogonal projections, ‖Px‖² + ‖(1−P)x‖² = ‖x‖²: moving one of the parts by a pixel keeps
    the norm, and so does the other axis with Q. ``side`` − 1 such stacked 2×2 kernels, and a
    rotation of the channels, are a kernel of that side (the construction of Xiao et al. 2018). With zeros
    around the map, ‖A‖ ≤ 1 stays, and the equality away from the border.

    >>> kernel = isometric_kernel(2, 3, 3)
    >>> kernel.shape, round(float(kernel.square().sum()), 6)
    (torch.Size([2, 3, 3, 3]), 2.0)
    """
    size = max(out_channels, in_channels)
    one = torch.eye(size, dtype=torch.float64)
    taps = orthogonal_matrix(size)[None, None]
    for _ in range(side - 1):
        p, q = (split_in_halves(size) for _ in range(2))
        longer = taps.new_zeros(taps.shape[0] + 1, taps.shape[1] + 1, size, size)
        for row, vertical in enumerate((p, one - p)):
            for column, horizontal in enumerate((q, one - q)):
                longer[row : row + len(taps), column : column + len(taps)] += vertical @ horizontal @ taps
        taps = longer
    return taps.permute(2, 3, 0, 1)[:out_channels, :in_channels].contiguous()


def split_in_halves(size: int) -> Float[Tensor, "size size"]:
    """Orthogonal projection onto a random subspace of half the dimension."""
    basis = orthogonal_matrix(size)[:, : size // 2]
    return basis @ basis.t()
