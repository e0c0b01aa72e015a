"""The branches of the CIFAR networks, each as the layer of geq and as algorithm 1 under torchdeq."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geq.cells import EnergyProblem
from geq.constraints import SpectralBound
from geq.equilibrium import Equilibrium
from geq.gradients import Gradient
from geq.kernels import PatchGaussianKernel
from geq.layers.energy import GAUSSIAN_GRADIENT
from geq.operators import Convolution
from geq.solvers import Anderson
from geq_papers.bench.case import Skip
from geq_papers.bench.literal_algorithm import LiteralMap

OUT_CHANNELS = 256
BEST_RIDGE = 1e-8
"""torchdeq's Anderson adds an absolute 1e-4 to its normal equations; this much is its best setting here."""


@dataclass(frozen=True)
class Branch:
    """One scale: side of the map, mid channels, and the images of a batch.

    By default the layer begins at the injection Ux + b, which costs the same on every side; ``whole`` has the
    convolution U in it. ‖W‖ ≤ ``bound``.
    """

    name: str
    side: int
    mid_channels: int
    batch: int
    whole: bool = False
    bound: float = 0.95

    def layer(self, gradient: Gradient | None = None, tol: float = 1e-3, max_steps: int = 50) -> Equilibrium:
        torch.manual_seed(0)
        U = Convolution(OUT_CHANNELS, self.mid_channels, bias=True) if self.whole else nn.Identity()
        W = Convolution(OUT_CHANNELS, self.mid_channels, constraint=SpectralBound(self.bound))
        problem = EnergyProblem(PatchGaussianKernel(), W, U)
        return Equilibrium(problem, Anderson(), gradient or GAUSSIAN_GRADIENT, tol, max_steps, "ignore")

    def input(self) -> Tensor:
        """Smooth and normalised maps."""
        generator = torch.Generator().manual_seed(1)
        channels = OUT_CHANNELS if self.whole else self.mid_channels
        x = torch.randn(self.batch, channels, self.side, self.side, generator=generator)
        return F.group_norm(F.avg_pool2d(x, 3, 1, 1), 8)

    def cotangent(self) -> Tensor:
        generator = torch.Generator().manual_seed(2)
        return torch.randn(self.batch, OUT_CHANNELS, self.side, self.side, generator=generator)


BRANCHES = (
    Branch("b32", 32, 64, 16),
    Branch("b16", 16, 128, 16),
    Branch("b8", 8, 128, 32),
    Branch("b4", 4, 256, 32),
)


def torchdeq_solve(
    *, tol: float, max_steps: int, lam: float | None, implicit: bool = False, training: bool = True
) -> Callable[[LiteralMap], Tensor]:
    """Anderson and the phantom gradient (5 × 0.8) of torchdeq, as its users assemble them.

    Args:
        tol, max_steps: of the forward solve.
        lam: the absolute ridge; None is torchdeq's own default.
        implicit: its implicit gradient, to 1e-3, instead of the phantom one.
        training: whether the result is connected to the graph.
    """
    try:
        from torchdeq import get_deq
    except ImportError as problem:
        raise Skip("torchdeq is not installed; pip install torchdeq") from problem
    deq = get_deq(
        f_solver="anderson",
        f_max_iter=max_steps,
        f_tol=tol,
        f_stop_mode="rel",
        b_solver="anderson",
        b_tol=1e-3,
        b_stop_mode="rel",
        grad=5,
        tau=0.8,
        ift=implicit,
    ).train(training)
    options: dict[str, Any] = {} if lam is None else {"lam": lam}

    def solve(fn: LiteralMap) -> Tensor:
        return deq(fn, fn.start(), solver_kwargs=options)[0][-1]

    return solve


def backward(layer: Equilibrium, z: Tensor, cotangent: Tensor) -> None:
    """Gradients of every parameter, as a training step needs them."""
    for parameter in layer.parameters():
        parameter.grad = None
    z.backward(cotangent)
