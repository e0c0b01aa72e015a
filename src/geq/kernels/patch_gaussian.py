"""Maps cut into patches, and the Gaussian kernel on them: the similarity that GEQ uses for images."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geq.bandwidth import GammaRule, as_gamma_rule
from geq.errors import InputError, OptionError
from geq.kernels import compiled_patch
from geq.kernels.base import BoundRadial, RadialSimilarity


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
    """Inverse of :func:`to_patches`."""
    b, groups, rows, columns, _ = patches.shape
    cut = patches.reshape(b, groups, rows, columns, channel_split, patch, patch).permute(0, 1, 4, 2, 5, 3, 6)
    return cut.reshape(b, groups * channel_split, rows * patch, columns * patch)


class PatchGaussianKernel(RadialSimilarity):
    """S = (1/2γ) Σᵢ e^{−γ‖dᵢW_h‖²}, dᵢ the i-th patch of Ux + b − Wz (GEQ eq. 16, algorithm 1).

    grad = unpatch(βᵢ dᵢ W_hW_hᵀ) with the attention weights βᵢ = e^{−γ‖dᵢW_h‖²}.

    Args:
        patch: side p of a patch; must divide the map.
        channel_split: channels c_s of a patch; must divide the mid channels.
        hidden: columns c_hid of W_h, which all patches share. The papers print 32, 64 and 128.
        gamma: a number (fixed γ) or a rule; default :class:`LearnedGamma`.

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
        super().__init__()
        for name, number in (("patch", patch), ("channel_split", channel_split), ("hidden", hidden)):
            if number < 1:
                raise OptionError(f"{name} must be at least 1: got {number}")
        self.patch, self.channel_split, self.hidden = patch, channel_split, hidden
        self.gamma = as_gamma_rule(gamma)
        self.raw_projection = nn.Parameter(nn.init.orthogonal_(torch.empty(channel_split * patch**2, hidden)))

    @property
    def projection(self) -> Float[Tensor, "entries hidden"]:
        """The effective W_h."""
        raw = self.raw_projection
        single = raw.to(torch.promote_types(raw.dtype, torch.float32))  # no singular values in half precision
        return single / torch.linalg.matrix_norm(single, 2).clamp_min(1.0)

    def check(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 3:
            raise InputError(
                f"PatchGaussianKernel needs maps (channels, height, width): got {shape}; for vectors use Gaussian"
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

    def bind_observing(self, v: Tensor, observe: bool) -> BoundPatchGaussian:
        self.check(tuple(v.shape[1:]))
        return BoundPatchGaussian(self, v, observe)

    def extra_repr(self) -> str:
        return f"patch={self.patch}, channel_split={self.channel_split}, hidden={self.hidden}"


class BoundPatchGaussian(BoundRadial):
    """Computed once: γ and the Gram matrix G = W_hW_hᵀ, which replaces W_h then W_hᵀ by one small product."""

    similarity: PatchGaussianKernel

    def __init__(self, similarity: PatchGaussianKernel, v: Tensor, observe: bool) -> None:
        super().__init__(similarity, v)
        projection = similarity.projection.to(v.dtype)
        self.gram = projection @ projection.t()
        q = self.distances(torch.zeros_like(v))
        self.gamma = similarity.gamma.of_batch(q, self.gram.diagonal().sum(), observe)

    def cut(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Patches d of v − u and dG."""
        d = to_patches(self.v - u, self.similarity.patch, self.similarity.channel_split)
        return d, d @ self.gram

    def gamma_of(self, d: Float[Tensor, "b groups rows columns entries"]) -> Tensor:
        """γ so that it broadcasts over the patches d."""
        alone = self.gamma.dim() == 0 or self.gamma.shape[1] == 1
        return self.gamma.view(-1, *((1, 1, 1) if alone else d.shape[1:4]))

    def distances(self, u: Tensor) -> Tensor:
        d, projected = self.cut(u)
        return (d * projected).sum(-1).flatten(1)

    def grad(self, u: Tensor) -> Tensor:
        if compiled_patch.usable(self.v, u, len(self.gram)):
            return self.fused(u)[0]
        d, projected = self.cut(u)
        gamma = self.gamma_of(d).unsqueeze(-1)
        weight = torch.exp(-gamma * (d * projected).sum(-1, keepdim=True))
        return from_patches(weight * projected, self.similarity.patch, self.similarity.channel_split)

    def fused(
        self, u: Tensor, direction: Tensor | None = None, gradients: bool = False
    ) -> tuple[Tensor, ...]:
        """The compiled twin of what follows."""
        sizes = self.similarity.patch, self.similarity.channel_split
        return compiled_patch.run(self.v, u, self.gram, self.gamma, *sizes, direction, gradients)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.v, self.gram, self.gamma

    def product(self, u: Tensor, q: Tensor) -> Tensor:
        if compiled_patch.usable(self.v, u, len(self.gram)):
            return self.fused(u, q)[0].neg_()
        sizes = self.similarity.patch, self.similarity.channel_split
        d, projected = self.cut(u)
        gamma = self.gamma_of(d).unsqueeze(-1)
        cut = to_patches(q, *sizes)
        weight = torch.exp(-gamma * (d * projected).sum(-1, keepdim=True))
        along = (projected * cut).sum(-1, keepdim=True)
        return from_patches(weight * (2 * gamma * along * projected - cut @ self.gram), *sizes)

    def pull_back(self, u: Tensor, y: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        if compiled_patch.usable(self.v, u, len(self.gram)):
            in_v, value, in_gram, in_gamma = self.fused(u, y, gradients=True)
            return value, (in_v, in_gram, self.reduced(in_gamma))
        sizes = self.similarity.patch, self.similarity.channel_split
        d, projected = self.cut(u)
        gamma = self.gamma_of(d).unsqueeze(-1)
        cut = to_patches(y, *sizes)
        square = (d * projected).sum(-1, keepdim=True)
        weight = torch.exp(-gamma * square)
        along = (projected * cut).sum(-1, keepdim=True)
        in_gram = (weight * d).flatten(0, -2).t() @ (cut - gamma * along * d).flatten(0, -2)
        in_gamma = -(weight * square * along).flatten(1)
        value = from_patches(weight * projected, *sizes)
        return value, (-self.product(u, y), in_gram, self.reduced(in_gamma))

    def attention(self, u: Tensor) -> Tensor:
        """β as ``(batch, channel groups, rows, columns)`` of patches."""
        d, projected = self.cut(u)
        return torch.exp(-self.gamma_of(d) * (d * projected).sum(-1))
