"""Independence of features: the Hilbert-Schmidt independence criterion with Gaussian kernels."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from geq.errors import OptionError
from geq.regularizers.features import FeatureRegulariser

FLOOR = 1e-6
"""Of the variance of a feature: one that is constant in the batch has none, and depends on nothing."""


class HSIC(FeatureRegulariser):
    """R = Σ_{i<j} HSIC(z_i, z_j), HSIC(X, Y) = (B − 1)⁻² tr(K_X H K_Y H): features become independent.

    K is the matrix of the Gaussian kernel e^(−‖a − b‖²/(2 s² d)) between the samples of one feature, H
    centres; d is the number of positions of a feature map (1 for vectors), so that the bandwidth s is in the
    unit of one number of the state at any resolution. Zero in the limit of B → ∞ exactly where all pairs are
    independent; not convex.

    The paper does not state its bandwidth. A fixed one sees nothing in features that are much smaller, and
    those of an equilibrium are: so by default s is in units of each feature's standard deviation σ_i over the
    batch (and the positions), through which it is differentiated; R then does not depend on the features'
    scale, like :class:`~geq.regularizers.Decorrelation`.

    The sum over pairs is never formed: with the centred K̃_i, Σ_{i<j}⟨K̃_i, K̃_j⟩ = ½(‖Σ K̃_i‖² − Σ‖K̃_i‖²), at
    m·B² memory instead of m²·B². With M_i = K_i ∘ Σ_{j≠i} K̃_j, the gradient in the feature y_i that the
    kernel sees is −2/((B − 1)²s²d)·(diag(M_i 1) − M_i)y_i.

    Args:
        bandwidth: s.
        relative: whether s is in units of σ_i, read as (σ_i² + 10⁻⁶)^½.
        fourier: number of random Fourier frequencies that replace the exact kernel, whose cost then grows
            linearly in B: K ≈ ΦΦᵀ with Φ = D^{−½}(cos ωz, sin ωz), ω ~ N(0, 1/(s² d)), with an error of about
            D^{−½}. Default: exact.
        seed: of the frequencies, which are the same in every evaluation.

    >>> z = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> HSIC().value(z) > HSIC().value(torch.tensor([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]))
    tensor(True)
    """

    couples_samples = True

    def __init__(
        self, bandwidth: float = 1.0, relative: bool = True, fourier: int | None = None, seed: int = 0
    ) -> None:
        super().__init__()
        if not bandwidth > 0:
            raise OptionError(f"HSIC: bandwidth must be above 0: got {bandwidth}")
        if fourier is not None and fourier < 1:
            raise OptionError(f"HSIC: fourier must be at least 1 frequency: got {fourier}")
        self.bandwidth, self.relative, self.fourier, self.seed = float(bandwidth), relative, fourier, seed

    def value(self, z: Float[Tensor, " batch *state"]) -> Float[Tensor, ""]:
        rows, scale = self._rows(z)
        rows = rows / scale
        if self.fourier is None:
            kernels = centred(self._kernels(rows))
            total = kernels.sum(0).square().sum() - kernels.square().sum()
        else:
            features = self._features(rows)
            features = features - features.mean(1, keepdim=True)
            joint = features.transpose(0, 1).flatten(1)
            total = gram_norm(joint) - gram_norm(features)
        return total / (2 * (z.shape[0] - 1) ** 2)

    def gradient(self, z: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        if self.fourier is not None:
            return super().gradient(z)
        rows, scale = self._rows(z)
        rows = rows / scale
        kernels = self._kernels(rows)
        middle = centred(kernels)
        weights = kernels * (middle.sum(0) - middle)
        pulled = weights.sum(2, keepdim=True) * rows - weights @ rows
        gradient = pulled * (-2 / ((z.shape[0] - 1) * self.bandwidth) ** 2 / rows.shape[2])
        if self.relative:
            # y = x/σ(x), and x is centred: dy = dx/σ − y⟨y, dx⟩/(σBd).
            along = (gradient * rows).sum((1, 2), keepdim=True) / (rows.shape[1] * rows.shape[2])
            gradient = (gradient - along * rows) / scale
        return gradient.transpose(0, 1).reshape(z.shape)

    def _rows(
        self, z: Tensor
    ) -> tuple[Float[Tensor, "feature batch position"], Float[Tensor, "feature 1 1"]]:
        """Return the centred features, and what the kernel divides them by.

        Centring leaves distances as they are, but not their rounding: products of large means would cancel.
        """
        self.check_batch(z)
        rows = z.transpose(0, 1).flatten(2) if z.dim() > 2 else z.T.unsqueeze(2)
        rows = rows - rows.mean(1, keepdim=True)
        if not self.relative:
            return rows, rows.new_ones(rows.shape[0], 1, 1)
        return rows, (rows.square().mean((1, 2), keepdim=True) + FLOOR).sqrt()

    def _kernels(self, rows: Float[Tensor, "feature batch position"]) -> Float[Tensor, "feature batch batch"]:
        size = rows.square().sum(2)
        distance = size.unsqueeze(2) + size.unsqueeze(1) - 2 * rows @ rows.mT
        return (distance.clamp_min(0) / (-2 * self.bandwidth**2 * rows.shape[2])).exp()

    def _features(
        self, rows: Float[Tensor, "feature batch position"]
    ) -> Float[Tensor, "feature batch double"]:
        assert self.fourier is not None
        positions = rows.shape[2]
        frequencies = standard_frequencies(positions, self.fourier, self.seed).to(rows)
        phases = rows @ frequencies / (self.bandwidth * math.sqrt(positions))
        return torch.cat((phases.cos(), phases.sin()), 2) / math.sqrt(self.fourier)

    def extra_repr(self) -> str:
        fourier = "" if self.fourier is None else f", fourier={self.fourier}"
        return f"bandwidth={self.bandwidth:g}, relative={self.relative}{fourier}"


def centred(kernels: Float[Tensor, "feature batch batch"]) -> Float[Tensor, "feature batch batch"]:
    """HKH for every kernel matrix."""
    rows = kernels.mean(2, keepdim=True)
    return kernels - rows - rows.mT + rows.mean(1, keepdim=True)


def gram_norm(features: Float[Tensor, "*feature batch double"]) -> Float[Tensor, ""]:
    """‖ΦΦᵀ‖² = ‖ΦᵀΦ‖², by the smaller of the two."""
    batch, size = features.shape[-2:]
    gram = features @ features.mT if batch < size else features.mT @ features
    return gram.square().sum()


@lru_cache(maxsize=16)
def standard_frequencies(positions: int, count: int, seed: int) -> Float[Tensor, "positions count"]:
    """Draws of N(0, 1), the same for the same arguments on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(positions, count, generator=generator, dtype=torch.float64)
