"""Gaussian kernels: on whole samples, and on the patches of a feature map, which GEQ uses for images."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geq.bandwidth import FixedGamma, GammaRule, ZeroGamma, as_gamma_rule, statistics_wanted
from geq.errors import InputError, OptionError
from geq.kernels import compiled_patch
from geq.kernels.base import BoundKernel, Kernel, Maps, Scores
from geq.kernels.compiled_patch import PatchOperation

PEAK_CURVATURE = 2.0 * math.exp(-1.5)
"""
Largest eigenvalue of the Hessian of (1/2γ)e^{−γ‖d‖²} in d: max over t of e^{−t}(2t − 1), reached at t = γ‖d‖²
= 3/2.
"""


class GaussianKernel(Kernel):
    """S = (1/2γ) e^{−γ‖v − u‖²}, one distance per sample: z = σ(e^{−γ‖r‖²}Wᵀr), r = Ux + b − Wz (GEQ eq.
    5–6). The whole sample is the only patch.

    The Hessian in the difference d is −β(I − 2γddᵀ), with eigenvalues in [−1, 2e^{−3/2}]: so ‖W‖ < 1 makes
    the plain iteration contract, and ‖W‖² < e^{3/2}/2 ≈ 2.24 keeps the hidden objective strongly convex.

    Args:
        gamma: A number (fixed γ) or a rule; default :class:`~geq.bandwidth.LearnedGamma`. In high dimension a
            fixed γ underflows to a dead layer (β = 0 and every gradient 0), which is why rules are relative
            to a scale.

    >>> GaussianKernel(gamma=0.5).value(torch.zeros(1, 2), torch.tensor([[1.0, 1.0]]))
    tensor([0.3679])
    """

    def __init__(self, gamma: float | int | GammaRule | None = None) -> None:
        super().__init__()
        self.gamma = as_gamma_rule(gamma)

    def cut(self, maps: Tensor) -> Float[Tensor, "batch groups rows columns entries"]:
        """Return the patches of maps; here one for each sample."""
        return maps.flatten(1)[:, None, None, None]

    def join(self, patches: Tensor, like: Tensor) -> Tensor:
        """Invert :meth:`cut`."""
        return patches.view(like.shape)

    def gram_matrix(self, dtype: torch.dtype) -> Tensor | None:
        """Return G = W_hW_hᵀ, the metric of the distances; None for the Euclidean one."""
        return None

    def bind(self, v: Maps) -> BoundGaussian:
        return BoundGaussian(self, v, observe=self.training and statistics_wanted())

    def value(self, u: Maps, v: Maps) -> Scores:
        return BoundGaussian(self, v, observe=False).value(u)

    def grad(self, u: Maps, v: Maps) -> Maps:
        return BoundGaussian(self, v, observe=False).grad(u)

    def curvature(self, feedback_norm: float) -> tuple[float, float] | None:
        flat = type(self.gamma) in (FixedGamma, ZeroGamma) and self.gamma.value == 0
        return -(feedback_norm**2), 0.0 if flat else PEAK_CURVATURE * feedback_norm**2


class PatchGaussianKernel(GaussianKernel):
    """S = (1/2γ) Σᵢ e^{−γ‖dᵢW_h‖²}, dᵢ the i-th patch of Ux + b − Wz (GEQ eq. 16, algorithm 1).

    grad = unpatch(βᵢ dᵢ W_hW_hᵀ) with the attention weights βᵢ = e^{−γ‖dᵢW_h‖²}.

    Args:
        patch: Side p of a patch; must divide the map.
        channel_split: Channels c_s of a patch; must divide the mid channels.
        hidden: Columns c_hid of W_h, which all patches share. The papers print 32, 64 and 128.
        gamma: A number (fixed γ) or a rule; default :class:`~geq.bandwidth.LearnedGamma`.

    W_h starts orthogonal and is kept at ‖W_h‖ ≤ 1 by the rule W_h/max(1, ‖W_h‖), which the papers do not
    state: together with the bound on W it makes ‖W_hᵀW‖ ≤ ‖W‖, on which the certificate of well-posedness
    rests.
    """

    def __init__(
        self,
        patch: int = 2,
        channel_split: int = 8,
        hidden: int = 64,
        gamma: float | int | GammaRule | None = None,
    ) -> None:
        super().__init__(gamma)
        for name, number in (("patch", patch), ("channel_split", channel_split), ("hidden", hidden)):
            if number < 1:
                raise OptionError(f"{name} must be at least 1: got {number}")
        self.patch, self.channel_split, self.hidden = patch, channel_split, hidden
        self.raw_projection = nn.Parameter(nn.init.orthogonal_(torch.empty(channel_split * patch**2, hidden)))

    @property
    def projection(self) -> Float[Tensor, "entries hidden"]:
        """The effective W_h."""
        raw = self.raw_projection
        single = raw.to(torch.promote_types(raw.dtype, torch.float32))  # no singular values in half precision
        return single / torch.linalg.matrix_norm(single, 2).clamp_min(1.0)

    def cut(self, maps: Tensor) -> Float[Tensor, "batch groups rows columns entries"]:
        return to_patches(maps, self.patch, self.channel_split)

    def join(self, patches: Tensor, like: Tensor) -> Tensor:
        return from_patches(patches, self.patch, self.channel_split)

    def gram_matrix(self, dtype: torch.dtype) -> Tensor:
        projection = self.projection.to(dtype)
        return projection @ projection.t()

    def check(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 3:
            raise InputError(
                f"PatchGaussianKernel needs maps (channels, height, width): got {shape}; for vectors use "
                "GaussianKernel"
            )
        channels, height, width = shape
        if channels % self.channel_split:
            fits = [n for n in range(1, channels + 1) if channels % n == 0]
            raise InputError(
                f"channel_split must divide the mid channels: got channel_split {self.channel_split} "
                f"for {channels} channels; use one of {fits}"
            )
        if height % self.patch or width % self.patch:
            fits = [n for n in range(1, min(height, width) + 1) if height % n == 0 and width % n == 0]
            raise InputError(
                f"patch must divide the feature map: got patch {self.patch} "
                f"on a {height}×{width} map; use one of {fits}"
            )

    def extra_repr(self) -> str:
        return f"patch={self.patch}, channel_split={self.channel_split}, hidden={self.hidden}"


class BoundGaussian(BoundKernel):
    """A Gaussian kernel with γ known, and its derivatives in closed form.

    Computed once: γ and the Gram matrix G = W_hW_hᵀ, which replaces W_h then W_hᵀ by one small product.
    """

    kernel: GaussianKernel

    def __init__(self, kernel: GaussianKernel, v: Tensor, observe: bool) -> None:
        super().__init__(kernel, v)
        self._operation: PatchOperation | None = None
        kernel.check(tuple(v.shape[1:]))
        self.gram = kernel.kept(("gram", v.dtype), lambda: kernel.gram_matrix(v.dtype))
        if kernel.frozen and kernel.gamma.constant:
            self.gamma = kernel.kept(("gamma", v.dtype, tuple(v.shape[1:])), lambda: self.find_gamma(False))
        else:
            self.gamma = self.find_gamma(observe)

    def find_gamma(self, observe: bool) -> Tensor:
        """Return γ by the kernel's rule."""
        if self.gram is None:
            expected = self.v.new_tensor(float(math.prod(self.v.shape[1:])))
        else:
            expected = self.gram.diagonal().sum()
        q = self.distances(torch.zeros_like(self.v))
        return self.kernel.gamma.of_batch(q, expected, observe)

    def projected(self, patches: Tensor) -> Tensor:
        """Return dG for patches d."""
        return patches if self.gram is None else patches @ self.gram

    def differences(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return the patches d of v − u, and dG."""
        d = self.kernel.cut(self.v - u)
        return d, self.projected(d)

    def gamma_of(self, d: Float[Tensor, "b groups rows columns entries"]) -> Tensor:
        """Return γ so that it broadcasts over the patches d."""
        alone = self.gamma.dim() == 0 or self.gamma.shape[1] == 1
        return self.gamma.view(-1, *((1, 1, 1) if alone else d.shape[1:4]))

    def weights(self, d: Tensor, projected: Tensor) -> tuple[Tensor, Tensor]:
        """Return β and γ with one entry per patch, so that both broadcast over its entries."""
        gamma = self.gamma_of(d).unsqueeze(-1)
        return torch.exp(-gamma * (d * projected).sum(-1, keepdim=True)), gamma

    def distances(self, u: Tensor) -> Float[Tensor, "batch patches"]:
        """Return q = ‖dW_h‖² of every patch."""
        d, projected = self.differences(u)
        return (d * projected).sum(-1).flatten(1)

    def attention(self, u: Tensor) -> Tensor:
        """Return β = e^{−γq} as ``(batch, channel groups, rows, columns)`` of patches; of vectors as
        ``(batch, 1)``.
        """
        d, projected = self.differences(u)
        weight = self.weights(d, projected)[0].squeeze(-1)
        return weight if self.gram is not None else weight.flatten(1)

    def value(self, u: Tensor) -> Tensor:
        q = self.distances(u)
        # For γ = 0 the limit, up to the constant 1/2γ.
        exact = torch.exp(-self.gamma * q) / (2 * torch.where(self.gamma > 0, self.gamma, 1.0))
        return torch.where(self.gamma > 0, exact, -0.5 * q).sum(1)

    def grad(self, u: Tensor) -> Tensor:
        if self.compiled(u):
            return self.fused(u)[0]
        d, projected = self.differences(u)
        return self.kernel.join(self.weights(d, projected)[0] * projected, u)

    def compiled(self, u: Tensor) -> bool:
        """Return whether the compiled form can take these maps."""
        return self.gram is not None and compiled_patch.usable(self.v, u, len(self.gram))

    def fused(
        self, u: Tensor, direction: Tensor | None = None, gradients: bool = False
    ) -> tuple[Tensor, ...]:
        """Return what the formulas of this class return, by compiled code."""
        operation = self._operation
        if operation is None or operation.given[2] is not self.gamma:
            operation = self._operation = self.compiled_operation()
        return operation(u, direction, gradients)

    def compiled_operation(self) -> PatchOperation:
        kernel, v, gram = self.kernel, self.v, self.gram
        assert isinstance(kernel, PatchGaussianKernel)
        assert gram is not None
        return PatchOperation(
            v,
            gram,
            self.gamma,
            kernel.patch,
            kernel.channel_split,
            lambda last, compute: kernel.kept(("ordered", v.dtype, last), compute),
        )

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What ``grad`` depends on besides u, with its graph; v first."""
        return (self.v, self.gamma) if self.gram is None else (self.v, self.gram, self.gamma)

    def product(self, u: Tensor, q: Tensor) -> Tensor:
        """Return ∂grad/∂u·q, a symmetric product, in closed form and without a graph."""
        if self.compiled(u):
            return self.fused(u, q)[0].neg_()
        d, projected = self.differences(u)
        weight, gamma = self.weights(d, projected)
        cut = self.kernel.cut(q)
        along = (projected * cut).sum(-1, keepdim=True)
        return self.kernel.join(weight * (2 * gamma * along * projected - self.projected(cut)), u)

    def pull_back(self, u: Tensor, y: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return ``grad(u)``, and the gradients of ⟨y, grad(u)⟩ in :attr:`inputs`."""
        if self.compiled(u):
            in_v, value, in_gram, in_gamma = self.fused(u, y, gradients=True)
            return value, (in_v, in_gram, self.reduced(in_gamma))
        d, projected = self.differences(u)
        weight, gamma = self.weights(d, projected)
        cut = self.kernel.cut(y)
        along = (projected * cut).sum(-1, keepdim=True)
        square = (d * projected).sum(-1, keepdim=True)
        value = self.kernel.join(weight * projected, u)
        in_gamma = self.reduced(-(weight * square * along).flatten(1))
        if self.gram is None:
            return value, (-self.product(u, y), in_gamma)
        in_gram = (weight * d).flatten(0, -2).t() @ (cut - gamma * along * d).flatten(0, -2)
        return value, (-self.product(u, y), in_gram, in_gamma)

    def reduced(self, gradient: Tensor) -> Tensor:
        """Return a gradient in γ, ``(batch, patches)`` or summed over the patches, in γ's own shape."""
        return gradient.sum() if self.gamma.dim() == 0 else gradient.sum_to_size(self.gamma.shape)

    def observe(self, u: Callable[[], Tensor]) -> None:
        self.kernel.gamma.observe_equilibrium(lambda: self.distances(u()))


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
