"""Drop-in layers with an energy: where an ``nn.Conv2d`` or an ``nn.Linear`` stands, an equilibrium can."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

from torch import Tensor, nn

from geq.bandwidth import GammaRule
from geq.cells import EnergyProblem
from geq.constraints import Constraint, SpectralBound
from geq.equilibrium import Equilibrium
from geq.errors import OptionError
from geq.gradients import Gradient, Implicit
from geq.kernels import GaussianKernel, Kernel, LinearKernel, PatchGaussianKernel
from geq.layers.folding import NormFolding
from geq.operators import Convolution, Dense
from geq.solvers import Solver

GAUSSIAN_GRADIENT = Implicit(tol=1e-2)
"""How layers with a Gaussian kernel are differentiated. Its curvature is at most 0.446‖W‖², so that an
adjoint residual of 1e-2 leaves dL/dW within 0.1 % of the exact one at ‖W‖ ≤ 0.95: less than a forward
tolerance of 1e-3.
"""
STRONGEST = 1.4
"""Bound of ‖W‖ for Gaussian layers on maps. Up to √2.24 ≈ 1.497 the hidden objective is strongly convex, so
that the equilibrium is unique; the stronger the feedback, the more accurate was a network of such layers
(docs/study-tables.md, question 2).
"""


def check_channels(in_channels: int, out_channels: int, mid_channels: int) -> None:
    if min(in_channels, out_channels, mid_channels) < 1:
        raise OptionError(
            "a layer needs positive channel counts: got "
            f"in {in_channels}, out {out_channels}, mid {mid_channels}"
        )


def inner_product_kernel(kernel: Kernel | None) -> Kernel:
    """Return the kernel of an OptEq layer, by default the linear one."""
    if kernel is None:
        return LinearKernel()
    if kernel.acts_on != "state":
        raise OptionError(
            f"an OptEq layer takes an inner-product kernel: got {type(kernel).__name__}; for kernels on "
            "features use GEQ2d, GEQLinear or EnergyProblem"
        )
    return kernel


class Scale(nn.Module):
    """x ↦ factor·x."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x

    def extra_repr(self) -> str:
        return f"{self.factor:g}"


def injection(linear: Convolution | Dense, normalise: bool, scale: float = 1.0) -> NormFolding:
    """Return x ↦ scale·norm(Ux + b).

    The norm has no learned scale: with one, weight decay lets the injection shrink until the layer is dead. A
    normalised injection needs no bias of its own.

    Args:
        linear: U.
        normalise: Whether to apply batch norm, without learned parameters.
        scale: Constant factor. A fixed γ needs distances of order one: KerDEQ uses 1/√(entries of a patch).
    """
    kind = nn.BatchNorm2d if isinstance(linear, Convolution) else nn.BatchNorm1d
    parts: dict[str, nn.Module] = {"linear": linear}
    if normalise:
        parts["norm"] = kind(linear.out_channels, affine=False)
    if scale != 1:
        parts["scale"] = Scale(scale)
    return NormFolding(OrderedDict(parts))


class GEQ2d(Equilibrium):
    """The Gaussian equilibrium of GEQ on ``(batch, channels, height, width)``, same size in and out.

    z = σ(Wᵀ unpatch(β d W_hW_hᵀ)) with d the patches of Ux − Wz and β = e^{−γ‖dW_h‖²} (GEQ eq. 16). The
    output is small (about 0.01–0.1 of a normalised input): put a norm behind it, as behind a convolution.

    Args:
        in_channels, out_channels: of the input and of the state z.
        mid_channels: of Ux and Wz; must be a multiple of ``channel_split``. Default: half of
            ``out_channels``, rounded up to such a multiple.
        patch, channel_split, hidden: p, c_s and c_hid of the kernel. ``patch`` must divide the map: pad the
            input where it does not.
        kernel_size: odd side of U and W.
        gamma: a number or a rule; default learned.
        constraint: constraint on W; default ‖W‖ ≤ 1.4, which leaves one equilibrium. Take
            ``SpectralBound(0.95)`` where the plain iteration has to contract.
        normalise_input: batch norm (without learned parameters) on Ux.
        injection_scale: constant factor on Ux.
        solver, gradient, tol, max_steps, on_failure: as of :class:`~geq.Equilibrium`.

    >>> import torch
    >>> layer = GEQ2d(3, 16)
    >>> layer(torch.randn(2, 3, 8, 8)).shape
    torch.Size([2, 16, 8, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        mid_channels: int | None = None,
        patch: int = 2,
        channel_split: int = 8,
        hidden: int = 64,
        kernel_size: int = 3,
        gamma: float | int | GammaRule | None = None,
        constraint: Constraint | None = None,
        normalise_input: bool = True,
        injection_scale: float = 1.0,
        solver: Solver[Any] | None = None,
        gradient: Gradient | None = None,
        tol: float = 1e-3,
        max_steps: int = 50,
        on_failure: str | None = None,
    ) -> None:
        kernel = PatchGaussianKernel(patch, channel_split, hidden, gamma)
        if mid_channels is None:
            mid_channels = channel_split * math.ceil(out_channels / (2 * channel_split))
        check_channels(in_channels, out_channels, mid_channels)
        if mid_channels % channel_split:
            raise OptionError(
                f"mid_channels must be a multiple of channel_split: got {mid_channels} and {channel_split}; "
                f"use {channel_split * math.ceil(mid_channels / channel_split)}"
            )
        linear = Convolution(in_channels, mid_channels, kernel_size, bias=not normalise_input)
        U = injection(linear, normalise_input, injection_scale)
        constraint = constraint or SpectralBound(STRONGEST)
        W = Convolution(out_channels, mid_channels, kernel_size, constraint=constraint)
        cell = EnergyProblem(kernel, W, U)
        super().__init__(cell, solver, gradient or GAUSSIAN_GRADIENT, tol, max_steps, on_failure)


class OptEq2d(Equilibrium):
    """The equilibrium of OptEq as GEQ reformulates it: z = σ(WᵀWz + Ux) on feature maps (GEQ eq. 3–4).

    Args:
        in_channels, out_channels: of the input and of the state z.
        mid_channels: of Wz; default half of ``out_channels``.
        kernel_size: odd side of U and W.
        kernel: an inner-product kernel: :class:`~geq.kernels.LinearKernel` (default),
            :class:`~geq.kernels.PolynomialKernel`, :class:`~geq.kernels.SigmoidKernel`.
        constraint: constraint on W; default ‖W‖ ≤ 0.95, without which the linear kernel does not converge.
        normalise_input, solver, gradient, tol, max_steps, on_failure: as of :class:`GEQ2d`.

    >>> import torch
    >>> OptEq2d(3, 16)(torch.randn(2, 3, 8, 8)).shape
    torch.Size([2, 16, 8, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        mid_channels: int | None = None,
        kernel_size: int = 3,
        kernel: Kernel | None = None,
        constraint: Constraint | None = None,
        normalise_input: bool = True,
        solver: Solver[Any] | None = None,
        gradient: Gradient | None = None,
        tol: float = 1e-3,
        max_steps: int = 50,
        on_failure: str | None = None,
    ) -> None:
        kernel = inner_product_kernel(kernel)
        mid_channels = max(1, out_channels // 2) if mid_channels is None else mid_channels
        check_channels(in_channels, out_channels, mid_channels)
        linear = Convolution(in_channels, out_channels, kernel_size, bias=not normalise_input)
        W = Convolution(out_channels, mid_channels, kernel_size, constraint=constraint)
        cell = EnergyProblem(kernel, W, injection(linear, normalise_input))
        super().__init__(cell, solver, gradient or Implicit(tol=1e-3), tol, max_steps, on_failure)


class GEQLinear(Equilibrium):
    """The Gaussian equilibrium on vectors: z = σ(e^{−γ‖r‖²}Wᵀr), r = Ux + b − Wz (GEQ eq. 5–6).

    Args:
        in_features, out_features: of the input and of the state z.
        mid_features: of Ux and Wz; default half of ``out_features``.
        gamma: a number or a rule; default learned. A fixed γ should be of the order 1/‖Ux + b‖².
        constraint: constraint on W; default ‖W‖ ≤ 0.95.
        normalise_input, solver, gradient, tol, max_steps, on_failure: as of :class:`GEQ2d`; normalisation
            needs batches of more than one.

    >>> import torch
    >>> GEQLinear(10, 16)(torch.randn(2, 10)).shape
    torch.Size([2, 16])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        mid_features: int | None = None,
        gamma: float | int | GammaRule | None = None,
        constraint: Constraint | None = None,
        normalise_input: bool = False,
        solver: Solver[Any] | None = None,
        gradient: Gradient | None = None,
        tol: float = 1e-3,
        max_steps: int = 50,
        on_failure: str | None = None,
    ) -> None:
        mid_features = max(1, out_features // 2) if mid_features is None else mid_features
        check_channels(in_features, out_features, mid_features)
        linear = Dense(in_features, mid_features, bias=not normalise_input)
        W = Dense(out_features, mid_features, constraint=constraint)
        cell = EnergyProblem(GaussianKernel(gamma), W, injection(linear, normalise_input))
        super().__init__(cell, solver, gradient or GAUSSIAN_GRADIENT, tol, max_steps, on_failure)


class OptEqLinear(Equilibrium):
    """The equilibrium of OptEq on vectors: z = σ(WᵀWz + Ux + b) (GEQ eq. 3–4).

    Args:
        in_features, out_features: of the input and of the state z.
        mid_features: of Wz; default half of ``out_features``.
        kernel: an inner-product kernel; default :class:`~geq.kernels.LinearKernel`.
        constraint, normalise_input, solver, gradient, tol, max_steps, on_failure: as of :class:`GEQLinear`.

    >>> import torch
    >>> OptEqLinear(10, 16)(torch.randn(2, 10)).shape
    torch.Size([2, 16])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        mid_features: int | None = None,
        kernel: Kernel | None = None,
        constraint: Constraint | None = None,
        normalise_input: bool = False,
        solver: Solver[Any] | None = None,
        gradient: Gradient | None = None,
        tol: float = 1e-3,
        max_steps: int = 50,
        on_failure: str | None = None,
    ) -> None:
        kernel = inner_product_kernel(kernel)
        mid_features = max(1, out_features // 2) if mid_features is None else mid_features
        check_channels(in_features, out_features, mid_features)
        linear = Dense(in_features, out_features, bias=not normalise_input)
        W = Dense(out_features, mid_features, constraint=constraint)
        cell = EnergyProblem(kernel, W, injection(linear, normalise_input))
        super().__init__(cell, solver, gradient or Implicit(tol=1e-3), tol, max_steps, on_failure)
