"""One evaluation of a multi-scale equilibrium (Bai et al. 2020): all scales are one joint fixed point.

The state is a tuple (z_0, …, z_S), z_i at 1/2^i of the resolution. Every scale runs a residual block, then
all blocks are fused into all scales:

    o_i = GN(ReLU(GN(ρ·conv(ReLU(GN(conv(z_i)))) + [i = 0]·injection) + ρ·z_i))
    z_i ← GN(conv(ReLU(Σ_j g_ij F_ij(o_j))))

The block's convolutions are 3×3, to ``expansion`` times the channels and back; the last one is 1×1. F_ij is,
towards coarser scales (j < i), a chain of 3×3 convolutions of stride 2 with group norm, ReLU between them;
towards finer ones (j > i) a 1×1 convolution, group norm and nearest-neighbour up-sampling; F_ii = I. The
input enters at the finest scale only. Group norm has no statistics of the batch, so samples are independent.

Where ours differs from the authors' code, and why. A group norm divides the scale of a convolution out, so
the norms of the weights do not make this map contract: as published (ρ = 1, all g_ij = 1) neither Anderson
nor Broyden gets below a relative residual of 0.1 in 40 evaluations at the start. What decides is how strongly
the state re-enters next to what drives it. So

* feedback enters with a weight ρ < 1 (``feedback``): the residual, the block's branch beside the
  injection, and in the fusion g_ij = ρ for coarser scales and for a coarse scale's own state; g_ij = 1 for
  what comes from finer scales, and for the finest scale's own state, which carries the input;
* these ratios are held by weight normalisation: each filter has norm 1 (the authors normalise filters too,
  with a learned gain that the following group norm makes redundant), the gains of a group norm have mean
  square 1, and the injection passes a group norm;
* filters start in a Gaussian direction at norm 1. From N(0, 0.01) they would be the same function, but behind
  a norm a step of SGD counts relative to the squared norm of a filter: at a learning rate of 0.1 the first
  step throws such filters away;
* a group should have 4 channels or more (the authors: 8 groups on 32 channels): with one channel a group,
  sparse maps have a variance near 0, and the norm amplifies them;
* no dropout inside the map.

Nothing is proved about existence or uniqueness.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from geq.cells import Cell
from geq.errors import OptionError

Map = Callable[[Tensor], Tensor]
Scales = tuple[Tensor, ...]


class UnitPart(nn.Module, ABC):
    """A part of the map with normalised weights; ``bind`` computes them, once per solve."""

    @abstractmethod
    def bind(self, dtype: torch.dtype) -> Map: ...


class UnitConvolution(UnitPart):
    """A convolution whose filters have norm 1."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, kernel, kernel))
        self.stride = stride
        nn.init.normal_(self.weight, std=(in_channels * kernel**2) ** -0.5)

    def bind(self, dtype: torch.dtype) -> Map:
        weight = self.weight.to(dtype)
        norm = weight.flatten(1).norm(dim=1).clamp_min(torch.finfo(dtype).tiny)
        unit = weight / norm.view(-1, 1, 1, 1)
        return lambda x: F.conv2d(x, unit, stride=self.stride, padding=unit.shape[-1] // 2)

    def extra_repr(self) -> str:
        out_channels, in_channels, kernel, _ = self.weight.shape
        return f"{in_channels}, {out_channels}, kernel={kernel}, stride={self.stride}"


class UnitGroupNorm(UnitPart):
    """A group norm whose gains have mean square 1; its shift is free."""

    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def bind(self, dtype: torch.dtype) -> Map:
        weight, bias = self.weight.to(dtype), self.bias.to(dtype)
        gain = weight * weight.square().mean().clamp_min(torch.finfo(dtype).tiny).rsqrt()
        return lambda x: F.group_norm(x, self.groups, gain, bias)

    def extra_repr(self) -> str:
        return f"{self.groups}, {len(self.weight)}"


class Chain(nn.Sequential):
    """Parts of the map, and plain modules, one after the other."""

    def bind(self, dtype: torch.dtype) -> Map:
        parts = [part.bind(dtype) if isinstance(part, UnitPart) else part for part in self]

        def run(x: Tensor) -> Tensor:
            for part in parts:
                x = part(x)
            return x

        return run


class ScaleBlock(nn.Module):
    """o_i from z_i: the residual block of one scale."""

    def __init__(self, channels: int, expansion: int, groups: int, feedback: float) -> None:
        super().__init__()
        inner = expansion * channels
        self.feedback = feedback
        self.branch = Chain(
            UnitConvolution(channels, inner),
            UnitGroupNorm(groups, inner),
            nn.ReLU(),
            UnitConvolution(inner, channels),
        )
        self.norm = UnitGroupNorm(groups, channels)
        self.out_norm = UnitGroupNorm(groups, channels)

    def bind(self, dtype: torch.dtype) -> Callable[[Tensor, Tensor | None], Tensor]:
        branch, norm, out_norm = self.branch.bind(dtype), self.norm.bind(dtype), self.out_norm.bind(dtype)

        def run(z: Tensor, injection: Tensor | None) -> Tensor:
            inner = self.feedback * branch(z)
            if injection is not None:
                inner = inner + injection
            return out_norm(F.relu(norm(inner) + self.feedback * z))

        return run


def path(source: int, target: int, channels: tuple[int, ...], groups: int) -> Chain:
    """F_ij, from scale ``source`` to another scale ``target``."""
    first, last = channels[source], channels[target]
    if source > target:
        upsample = nn.Upsample(scale_factor=float(2 ** (source - target)), mode="nearest")
        return Chain(UnitConvolution(first, last, 1), UnitGroupNorm(groups, last), upsample)
    chain = Chain()
    for _ in range(target - source - 1):
        chain.extend([UnitConvolution(first, first, stride=2), UnitGroupNorm(groups, first), nn.ReLU()])
    return chain.extend([UnitConvolution(first, last, stride=2), UnitGroupNorm(groups, last)])


@dataclass(frozen=True)
class ScaleContext:
    """The injection, and every part of the map with its weights at hand."""

    injection: Float[Tensor, "batch channel height width"]
    blocks: tuple[Callable[[Tensor, Tensor | None], Tensor], ...]
    paths: tuple[tuple[Map | None, ...], ...]
    outputs: tuple[Map, ...]


class MDEQCell(Cell):
    """The joint map of all scales; see the module's text.

    Args:
        channels: of each scale, finest first; the input has as many as the finest.
        expansion: of the block's inner channels.
        groups: of the group norms (half as many in the last norm of a scale).
        feedback: ρ, in (0, 1].
    """

    def __init__(
        self, channels: tuple[int, ...], expansion: int = 5, groups: int = 8, feedback: float = 0.2
    ) -> None:
        super().__init__()
        if not 0 < feedback <= 1:
            raise OptionError(f"feedback must lie in (0, 1]: got {feedback}; 0.2 converges")
        if any(width % groups for width in channels):
            raise OptionError(f"groups must divide the channels of every scale: got {groups}, {channels}")
        self.channels, self.feedback = channels, feedback
        scales = range(len(channels))
        self.injection = Chain(
            UnitConvolution(channels[0], channels[0], 1), UnitGroupNorm(groups, channels[0])
        )
        self.blocks = nn.ModuleList(ScaleBlock(width, expansion, groups, feedback) for width in channels)
        self.paths = nn.ModuleList(
            nn.ModuleList(nn.Identity() if i == j else path(j, i, channels, groups) for j in scales)
            for i in scales
        )
        self.outputs = nn.ModuleList(
            Chain(nn.ReLU(), UnitConvolution(width, width, 1), UnitGroupNorm(max(groups // 2, 1), width))
            for width in channels
        )

    def inject(self, x: Float[Tensor, "batch channel height width"]) -> ScaleContext:
        dtype = torch.promote_types(x.dtype, torch.float32)
        return ScaleContext(
            injection=self.injection.bind(dtype)(x.to(dtype)),
            blocks=tuple(block.bind(dtype) for block in self.blocks if isinstance(block, ScaleBlock)),
            paths=tuple(
                tuple(part.bind(dtype) if isinstance(part, Chain) else None for part in row)
                for row in self.paths
                if isinstance(row, nn.ModuleList)
            ),
            outputs=tuple(part.bind(dtype) for part in self.outputs if isinstance(part, Chain)),
        )

    def initial_state(self, c: ScaleContext) -> Scales:
        batch, _, height, width = c.injection.shape
        return tuple(
            c.injection.new_zeros(batch, channels, height >> i, width >> i)
            for i, channels in enumerate(self.channels)
        )

    def fusion_weight(self, target: int, source: int) -> float:
        """g_ij."""
        return 1.0 if source < target or source == target == 0 else self.feedback

    def forward(self, z: Scales, c: ScaleContext) -> Scales:
        blocks = [
            block(part, None if i else c.injection)
            for i, (block, part) in enumerate(zip(c.blocks, z, strict=True))
        ]
        fused = []
        for i, (paths, output) in enumerate(zip(c.paths, c.outputs, strict=True)):
            total = torch.zeros_like(z[i])
            for j, (part, block) in enumerate(zip(paths, blocks, strict=True)):
                total = total + self.fusion_weight(i, j) * (block if part is None else part(block))
            fused.append(output(total))
        return tuple(fused)
