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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor

ROUNDING = 2e-7
"""Relative margin of an upper bound: more than rounding can hide on the largest matrices in use."""

QUICK, THOROUGH = 2e10, 5e11
"""Multiply-adds that a factorisation may take: about a second, and about half a minute, of one core."""

LANCZOS_STEPS, POWER_STEPS = 40, 20
FIRST_MARGIN, NEXT_MARGIN = 1e-3, 4.0
"""The first τ is the estimate times (1 + margin)²; after a failure the margin grows by this factor."""

SMALL_SYMBOL = 128
"""Up to this size eigenvalues of a frequency are computed; beyond, a Cholesky factorisation is cheaper."""

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


@torch.no_grad()
def largest_singular_value(
    apply: Callable[[Tensor], Tensor], adjoint: Callable[[Tensor], Tensor], shape: tuple[int, ...]
) -> float:
    """A lower bound of ‖A‖, by Lanczos on AᵀA from a fixed random start; usually exact to four digits.

    The iteration runs in single precision; what it finds is one vector, for which ‖Ax‖/‖x‖ is then computed
    in double. So the answer is a lower bound whatever went before.
    """
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(shape, generator=generator, dtype=torch.float32).flatten()
    steps = min(LANCZOS_STEPS, len(start))
    basis = start.new_zeros(steps, len(start))
    basis[0] = start / start.norm()
    projected = torch.zeros(steps, steps, dtype=torch.float64)
    size = 1
    for k in range(steps):
        image = adjoint(apply(basis[k].view(shape))).flatten()
        projected[: k + 1, k] = (basis[: k + 1] @ image).double()
        for _ in range(2):  # once is not enough to stay orthogonal
            image = image - basis[: k + 1].t() @ (basis[: k + 1] @ image)
        norm = image.norm()
        size = k + 1
        if size == steps or float(norm) <= 1e-6 * float(projected.diagonal()[:size].max()):
            break
        basis[size] = image / norm
        projected[size, k] = float(norm)
    ritz = projected[:size, :size]
    _, vectors = torch.linalg.eigh((ritz + ritz.t()) / 2)
    best = (vectors[:, -1] @ basis[:size].double()).view(shape)
    return float(apply(best).norm() / best.norm())


@torch.no_grad()
def matrix_enclosure(weight: Float[Tensor, "out in"]) -> Enclosure:
    """The norm of a matrix: its singular values."""
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
    """The norm of a convolution that keeps the size of its maps, followed by a patch root if one is given.

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
        gram = StripGram(weight, height, width, root)
        found = _first_cover(gram.below, lower)
        if found is not None:
            return Enclosure(scale * lower, scale * found, "Cholesky")
    extra = margin if padding == "zeros" else 0
    # A kernel of one pixel is the same matrix at every frequency.
    grid = [step * -(-(side + extra) // step) if margin else step for side in (height, width)]
    upper = fourier_bound(weight, grid[0], grid[1], root, lower)
    return Enclosure(scale * lower, scale * upper, "Fourier")


def _first_cover(below: Callable[[float], bool], lower: float) -> float | None:
    """The first upper bound, of a growing sequence, that ``below`` proves."""
    margin = FIRST_MARGIN
    while margin < 0.1:
        bound = lower * (1 + margin)
        if below(bound**2):
            return bound * (1 + ROUNDING)
        margin *= NEXT_MARGIN
    return None


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

    def pair(self, i: int, j: int) -> Tensor | None:
        """The block of two single rows; None where they do not meet."""
        total: Tensor | None = None
        for r in range(
            max(0, i - self.margin, j - self.margin), min(self.height, min(i, j) + self.margin + 1)
        ):
            a, b = r - i + self.margin, r - j + self.margin
            product = self.products[a, b] if a >= b else self.products[b, a].t()
            total = product if total is None else total + product
        return total

    def block(self, i: int, j: int) -> Tensor:
        """The block of two strips."""
        # All strips further than a margin from the border are alike.
        above, below = min(i, j) * self.step, self.height - (max(i, j) + 1) * self.step
        place = (i - j, min(above, self.margin), min(below, self.margin))
        if place not in self.kept:
            rows = []
            for a in range(self.step):
                pairs = [self.pair(i * self.step + a, j * self.step + b) for b in range(self.step)]
                empty = self.products[0, 0].new_zeros(self.size, self.size)
                rows.append(torch.cat([empty if pair is None else pair for pair in pairs], 1))
            matrix = torch.cat(rows, 0)
            if self.root is not None:
                matrix = self.root.rows(self.root.rows(matrix, self.width).t(), self.width).t()
            self.kept[place] = matrix
        return self.kept[place]

    def below(self, tau: float) -> bool:
        """Whether every eigenvalue is below ``tau``: whether a Cholesky factor of τI − AAᵀ exists."""
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


def wrapped(
    kernel: Float[Tensor, "out in k k"], height: int, width: int
) -> Float[Tensor, "out in {height} {width}"]:
    """The kernel laid on a periodic grid, folded where the grid is smaller than the kernel."""
    folded = kernel.new_zeros(*kernel.shape[:2], height, width)
    for i in range(kernel.shape[2]):
        for j in range(kernel.shape[3]):
            folded[:, :, i % height, j % width] += kernel[:, :, i, j]
    return folded


def symbol_grams(
    weight: Tensor, height: int, width: int, root: PatchRoot | None
) -> Iterator[Complex[Tensor, "frequencies n n"]]:
    """AAᴴ of the circular convolution at its frequencies, half of them (the others are conjugate).

    A patch sees p² frequencies at once, those that differ by a multiple of the coarse grid's size: with K_l
    the Gram matrix of frequency l, its pixels a and b meet with Σ_l e^{2πiω_l·(a−b)/N} K_l / p².
    """
    symbol = torch.fft.fft2(wrapped(weight, height, width)).permute(2, 3, 0, 1)
    if root is None:
        for row in symbol[: height // 2 + 1]:
            yield row @ row.mH
        return
    p, channels = root.patch, weight.shape[0]
    rows, columns = height // p, width // p
    differences = torch.arange(p, dtype=torch.float64)[:, None] - torch.arange(p, dtype=torch.float64)
    at = torch.arange(width)
    horizontal = torch.exp(2j * math.pi / width * at[:, None, None] * differences)
    size = p * p * channels
    for i in range(rows // 2 + 1):
        mixed = symbol.new_zeros(columns, p, p, channels, p, p, channels)
        for row in range(i, height, rows):
            values = symbol[row].conj()
            gram = values @ values.mH
            # One axis after the other: first the frequencies along a row that a patch cannot tell apart.
            across = torch.einsum(
                "mnbd,mnef->nbedf",
                horizontal.view(p, columns, p, p),
                gram.view(p, columns, channels, channels),
            )
            vertical = torch.exp(2j * math.pi / height * row * differences) / p**2
            for a in range(p):
                for c in range(p):
                    mixed[:, a, :, :, c].add_(across, alpha=complex(vertical[a, c]))
        once = [root.rows(part, p) for part in mixed.reshape(columns, size, size)]
        yield torch.stack([root.rows(part.mH, p).mH for part in once])


def top_eigenvalue(grams: Complex[Tensor, "frequencies n n"]) -> float:
    """A lower bound of the largest eigenvalue, by a few power iterations."""
    vector = grams.sum(-1, keepdim=True)
    for _ in range(POWER_STEPS):
        vector = grams @ (vector / torch.linalg.vector_norm(vector, dim=1, keepdim=True).clamp_min(1e-150))
    return float(torch.linalg.vector_norm(vector, dim=1).max())


def fourier_bound(weight: Tensor, height: int, width: int, root: PatchRoot | None, guess: float) -> float:
    """The largest singular value over all frequencies; of large matrices a bound at most 0.25 % above it."""
    tau = max(guess, 1e-150) ** 2
    for grams in symbol_grams(weight, height, width, root):
        if grams.shape[-1] <= SMALL_SYMBOL:
            tau = max(tau, float(torch.linalg.eigvalsh(grams)[:, -1].max()))
            continue
        tau = max(tau, top_eigenvalue(grams))
        identity = torch.eye(grams.shape[-1], dtype=grams.dtype)
        while bool(torch.linalg.cholesky_ex(tau * identity - grams).info.any()):
            tau *= 1.005
    return math.sqrt(tau) * (1 + ROUNDING)
