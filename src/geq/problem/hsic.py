"""Independence of features: the Hilbert-Schmidt independence criterion with Gaussian kernels."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from geq.error import OptionError
from geq.problem.regulariser import FeatureRegulariser


class HSIC(FeatureRegulariser):
    """R = Σ_{i<j} HSIC(z_i, z_j), HSIC(X, Y) = (B − 1)⁻² tr(K_X H K_Y H): features become independent.

    K is the matrix of the Gaussian kernel e^(−‖a − b‖²/(2 s² d)) between the samples of one feature, H
    centres; d is the number of positions of a feature map (1 for vectors), so that the bandwidth s is in the
    unit of one number of the state at any resolution. Zero in the limit of B → ∞ exactly where all pairs are
    independent; not convex.

    The sum over pairs is never formed: with the centred K̃_i, Σ_{i<j}⟨K̃_i, K̃_j⟩ = ½(‖Σ K̃_i‖² − Σ‖K̃_i‖²), at
    m·B² memory instead of m²·B². With M_i = K_i ∘ Σ_{j≠i} K̃_j the gradient is
    ∇_i R = −2/((B − 1)²s²d)·(diag(M_i 1) − M_i)z_i.

    Args:
        bandwidth: s. The paper does not state it.
        fourier: number of random Fourier frequencies that replace the exact kernel, whose cost then grows
            linearly in B: K ≈ ΦΦᵀ with Φ = D^{−½}(cos ωz, sin ωz), ω ~ N(0, 1/(s² d)), with an error of about
            D^{−½}. Default: exact.
        seed: of the frequencies, which are the same in every evaluation.

    >>> z = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> HSIC().value(z) > HSIC().value(torch.tensor([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]))
    tensor(True)
    """

    couples_samples = True

    def __init__(self, bandwidth: float = 1.0, fourier: int | None = None, seed: int = 0) -> None:
        super().__init__()
        if not bandwidth > 0:
            raise OptionError(f"HSIC: bandwidth must be above 0: got {bandwidth}")
        if fourier is not None and fourier < 1:
            raise OptionError(f"HSIC: fourier must be at least 1 frequency: got {fourier}")
        self.bandwidth, self.fourier, self.seed = float(bandwidth), fourier, seed

    def value(self, z: Float[Tensor, "batch *state"]) -> Float[Tensor, ""]:
        self.check_batch(z)
        rows = self._rows(z)
        if self.fourier is None:
            kernels = centred(self._kernels(rows))
            total = kernels.sum(0).square().sum() - kernels.square().sum()
        else:
            features = self._features(rows)
            features = features - features.mean(1, keepdim=True)
            joint = features.transpose(0, 1).flatten(1)
            # ΦΦᵀ or ΦᵀΦ: the same norm, whichever is smaller.
            both = joint @ joint.T if joint.shape[0] < joint.shape[1] else joint.T @ joint
            total = both.square().sum() - (features.mT @ features).square().sum()
        return total / (2 * (z.shape[0] - 1) ** 2)

    def gradient(self, z: Float[Tensor, "batch *state"]) -> Float[Tensor, "batch *state"]:
        if self.fourier is not None:
            return super().gradient(z)
        self.check_batch(z)
        rows = self._rows(z)
        kernels = self._kernels(rows)
        middle = centred(kernels)
        weights = kernels * (middle.sum(0) - middle)
        pulled = weights.sum(2, keepdim=True) * rows - weights @ rows
        gradient = pulled * (-2 / ((z.shape[0] - 1) * self.bandwidth) ** 2 / rows.shape[2])
        return gradient.transpose(0, 1).reshape(z.shape)

    @staticmethod
    def _rows(z: Tensor) -> Float[Tensor, "feature batch position"]:
        return z.transpose(0, 1).flatten(2) if z.dim() > 2 else z.T.unsqueeze(2)

    def _kernels(self, rows: Float[Tensor, "feature batch position"]) -> Float[Tensor, "feature batch batch"]:
        # Distances do not change, but their rounding does: products of large means would cancel.
        rows = rows - rows.mean(1, keepdim=True)
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
        return f"bandwidth={self.bandwidth:g}" + (f", fourier={self.fourier}" if self.fourier else "")


def centred(kernels: Float[Tensor, "feature batch batch"]) -> Float[Tensor, "feature batch batch"]:
    """HKH for every kernel matrix."""
    rows = kernels.mean(2, keepdim=True)
    return kernels - rows - rows.mT + rows.mean(1, keepdim=True)


@lru_cache(maxsize=16)
def standard_frequencies(positions: int, count: int, seed: int) -> Float[Tensor, "positions count"]:
    """Draws of N(0, 1), the same for the same arguments on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(positions, count, generator=generator, dtype=torch.float64)
