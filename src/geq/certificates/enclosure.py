"""Two-sided bounds of operator norms: an estimate from below, and a proof from above.

Below: Lanczos iteration on AᵀA (power iteration that keeps what it saw) gives a Ritz value, which never
exceeds ‖A‖². Above, two proofs:

* **Cholesky.** ‖A‖² < τ if and only if τI − AAᵀ is positive definite, which a Cholesky factorisation decides.
  With τ a little above the estimate it succeeds, and the two bounds enclose ‖A‖ within a tenth of a percent.
  For a k×k convolution with zero padding, AAᵀ is a banded matrix of blocks, one block per strip of rows: a
  pixel meets only those at most k − 1 rows away. So the factorisation never holds more than a few strips, and
  its cost grows with the number of strips, not with its cube.
* **Fourier.** With zero padding A is a corner of the circular convolution on any grid that is wider by half a
  kernel, so ‖A‖ is at most the largest singular value over that grid's frequencies. It costs little and is
  exact for circular padding; with zeros it is too large by about 1/size² (17 % on a 4×4 map, 1 % on 16×16).

Patches join in: ‖W_hᵀW‖ of the patch kernel is the norm of R·P·W with P the cutting into patches (a
permutation) and R the symmetric root of W_hW_hᵀ on each patch. A strip is then as high as a patch, and a
shift by a whole patch keeps the operator, so that both proofs go through with p² times larger blocks.

Factorisations run in double precision. Rounding can make them succeed for a matrix whose least eigenvalue is
negative by at most a few n²·2⁻⁵³·τ (Rump 2006); :data:`ROUNDING` is added for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from geq.certificates.banded_gram import StripGram, strip_cost
from geq.certificates.fourier_bound import fourier_bound
from geq.certificates.patch_root import PatchRoot
from geq.constraints.power_iteration import generic_direction, top_direction

ROUNDING = 2e-7
"""Relative margin of an upper bound: more than rounding can hide on the largest matrices in use."""

QUICK, THOROUGH = 2.5e10, 5e11
"""Multiply-adds that a factorisation may take: about a second, and about half a minute, of one core."""

LANCZOS_STEPS = 60
FIRST_MARGIN, NEXT_MARGIN, LAST_MARGIN = 1e-3, 4.0, 0.1
"""The first τ is the estimate times (1 + margin)²; after a failure the margin grows, up to the last."""

Method = Literal["singular values", "Cholesky", "Fourier"]


@dataclass(frozen=True)
class Enclosure:
    """lower ≤ ‖A‖ ≤ upper; ``method`` says how the upper bound was proved.

    >>> Enclosure(0.9, 0.91, "Cholesky").width
    0.011...
    """

    lower: float
    upper: float
    method: Method

    @property
    def width(self) -> float:
        """How far the bounds are apart, relative to the lower one."""
        return self.upper / self.lower - 1 if self.lower > 0 else (math.inf if self.upper > 0 else 0.0)


@torch.no_grad()
def largest_singular_value(
    apply: Callable[[Tensor], Tensor], adjoint: Callable[[Tensor], Tensor], shape: tuple[int, ...]
) -> float:
    """Return a lower bound of ‖A‖, usually exact to six digits.

    The iteration runs in single precision; what it finds is one vector, for which ‖Ax‖/‖x‖ is then computed
    in double. So the answer is a lower bound whatever went before.
    """
    start = generic_direction(shape, torch.float32)
    best = top_direction(apply, adjoint, start, LANCZOS_STEPS).double()
    return float(apply(best).norm() / best.norm().clamp_min(torch.finfo(best.dtype).tiny))


@torch.no_grad()
def matrix_enclosure(weight: Float[Tensor, "out in"]) -> Enclosure:
    """Return the norm of a matrix: its singular values."""
    norm = float(torch.linalg.matrix_norm(weight.detach().double(), 2))
    return Enclosure(norm, norm * (1 + ROUNDING), "singular values")


@torch.no_grad()
def convolution_enclosure(
    weight: Float[Tensor, "out in k k"],
    height: int,
    width: int,
    padding: str = "zeros",
    root: PatchRoot | None = None,
    budget: float = QUICK,
) -> Enclosure:
    """Return the norm of a size-preserving convolution, followed by a patch root if one is given.

    Args:
        weight: its kernel.
        height, width: of the maps.
        padding: "zeros" or "circular".
        root: R, for the norm of R·P·W.
        budget: multiply-adds that the factorisation may take; beyond, the Fourier bound stands alone.
    """
    weight = weight.detach().double()
    margin = weight.shape[-1] // 2
    scale = float(weight.abs().max())
    if not math.isfinite(scale):
        return Enclosure(math.inf, math.inf, "singular values")
    if scale == 0 or (root is not None and not bool(root.root.any())):
        return Enclosure(0.0, 0.0, "singular values")
    weight = weight / scale  # so that no square underflows
    if root is None:
        # ‖A‖ = ‖Aᵀ‖, and turning maps by a quarter changes nothing: take the smaller blocks.
        if weight.shape[1] < weight.shape[0]:
            weight = weight.flip(2, 3).transpose(0, 1)
        if width > height:
            weight, height, width = weight.transpose(2, 3), width, height
    lower = largest_singular_value(*_maps(weight, padding, root), (1, weight.shape[1], height, width))
    step = 1 if root is None else root.patch
    if padding == "zeros" and margin and strip_cost(weight, height, width, step) <= budget:
        gram, slack = StripGram(weight, height, width, root), FIRST_MARGIN
        while slack < LAST_MARGIN:
            bound = lower * (1 + slack)
            if gram.below(bound**2):
                return Enclosure(scale * lower, scale * (bound * (1 + ROUNDING)), "Cholesky")
            slack *= NEXT_MARGIN
    extra = margin if padding == "zeros" else 0
    # A kernel of one pixel is the same matrix at every frequency.
    grid = [step * -(-(side + extra) // step) if margin else step for side in (height, width)]
    upper = fourier_bound(weight, grid[0], grid[1], root, lower) * (1 + ROUNDING)
    return Enclosure(scale * lower, scale * upper, "Fourier")


def _maps(
    weight: Tensor, padding: str, root: PatchRoot | None
) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    margin = weight.shape[-1] // 2
    kernels = {torch.float64: weight, torch.float32: weight.float()}

    def apply(z: Tensor) -> Tensor:
        kernel = kernels[z.dtype]
        if padding == "zeros":
            value = F.conv2d(z, kernel, padding=margin)
        else:
            value = F.conv2d(F.pad(z, (margin,) * 4, mode="circular"), kernel)
        return value if root is None else root.maps(value)

    def adjoint(y: Tensor) -> Tensor:
        kernel = kernels[y.dtype]
        y = y if root is None else root.maps(y)
        if padding == "zeros":
            return F.conv_transpose2d(y, kernel, padding=margin)
        return F.conv2d(F.pad(y, (margin,) * 4, mode="circular"), kernel.flip(2, 3).transpose(0, 1))

    return apply, adjoint
