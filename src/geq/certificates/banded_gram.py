"""AAᵀ of a zero-padded convolution as a banded matrix of blocks, and its Cholesky factorisation."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from geq.certificates.patch_root import PatchRoot


def strip_cost(weight: Tensor, height: int, width: int, step: int) -> float:
    """Multiply-adds of :class:`StripGram` and one factorisation of it."""
    out, into, kernel = weight.shape[:3]
    strips, block = height / step, step * width * out
    band = math.ceil((kernel - 1) / step)
    gram = kernel**2 / 2 * (width * out) ** 2 * width * into
    return gram + strips * block**3 * (1 / 6 + band / 2 + band * (band + 1) / 2)


class StripGram:
    """AAᵀ of a zero-padded convolution (or RPA(RPA)ᵀ) as blocks, one per pair of strips of rows.

    With T_a the matrix of row a of the kernel, acting along a row of the map, the block of output rows (i, j)
    is Σ_r T_{r−i+m} T_{r−j+m}ᵀ over the rows r that exist.
    """

    def __init__(self, weight: Tensor, height: int, width: int, root: PatchRoot | None) -> None:
        self.root, self.height, self.width = root, height, width
        self.step = 1 if root is None else root.patch
        out, into, kernel = weight.shape[:3]
        self.margin = kernel // 2
        rows = weight.new_zeros(kernel, width, out, width, into)
        for column in range(width):
            for b in range(kernel):
                source = column + b - self.margin
                if 0 <= source < width:
                    rows[:, column, :, source, :] = weight[:, :, :, b].permute(2, 0, 1)
        flat = rows.reshape(kernel, width * out, width * into)
        self.products = {(a, b): flat[a] @ flat[b].t() for a in range(kernel) for b in range(a + 1)}
        self.size = width * out
        self.kept: dict[tuple[int, ...], Tensor] = {}

    def pair(self, i: int, j: int) -> Tensor:
        """Return the block of two single rows; zero where they do not meet."""
        total = self.products[0, 0].new_zeros(self.size, self.size)
        for r in range(
            max(0, i - self.margin, j - self.margin), min(self.height, min(i, j) + self.margin + 1)
        ):
            a, b = r - i + self.margin, r - j + self.margin
            total += self.products[a, b] if a >= b else self.products[b, a].t()
        return total

    def block(self, i: int, j: int) -> Tensor:
        """Return the block of two strips."""
        # All strips further than a margin from the border are alike.
        above, below = min(i, j) * self.step, self.height - (max(i, j) + 1) * self.step
        place = (i - j, min(above, self.margin), min(below, self.margin))
        if place not in self.kept:
            first, second = (range(k * self.step, (k + 1) * self.step) for k in (i, j))
            matrix = torch.cat([torch.cat([self.pair(a, b) for b in second], 1) for a in first])
            if self.root is not None:
                matrix = self.root.rows(self.root.rows(matrix, self.width).t(), self.width).t()
            self.kept[place] = matrix
        return self.kept[place]

    def below(self, tau: float) -> bool:
        """Return whether every eigenvalue is below ``tau``: whether a Cholesky factor of τI − AAᵀ exists."""
        band = math.ceil(2 * self.margin / self.step)
        factor: dict[tuple[int, int], Tensor] = {}
        for i in range(self.height // self.step):
            first = max(0, i - band)
            for j in range(first, i):
                rest = -self.block(i, j)
                for k in range(max(first, j - band), j):
                    rest = rest.addmm(factor[i, k], factor[j, k].t(), alpha=-1)
                factor[i, j] = torch.linalg.solve_triangular(factor[j, j], rest.t(), upper=False).t()
            rest = -self.block(i, i)
            rest.diagonal().add_(tau)
            for k in range(first, i):
                rest = rest.addmm(factor[i, k], factor[i, k].t(), alpha=-1)
            lower, failed = torch.linalg.cholesky_ex(rest)
            if int(failed):
                return False
            factor[i, i] = lower
            factor = {key: value for key, value in factor.items() if key[0] > i - band}
        return True
