"""Parallel equilibria at several scales: the network of GEQ, KerDEQ, OptEq and MOptEq, which differ in the
kernel.

    stem → for each branch: average-pool to its scale, equilibrium → bring to one scale, average → norm, ReLU
    → pool → linear

As a cascade, which the papers do not have, each equilibrium takes the one before it as input, not the stem,
after norm and ReLU, and the head takes the last: as many stacked convolutions as in a deep network.

The papers leave open how outputs are normalised. Without a norm after the fusion nothing trains (z is small),
so there is one; its absence is not offered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from geq.bandwidth import FixedGamma, GammaRule, LearnedGamma, MedianGamma, PaperGamma, ZeroGamma
from geq.cells import EnergyProblem
from geq.constraints import (
    ChannelGainBound,
    Constraint,
    FrobeniusBound,
    LearnedSpectralBound,
    SpectralBound,
    SpectralEquality,
    Unconstrained,
    WeightNorm,
)
from geq.equilibrium import Equilibrium
from geq.errors import InputError, OptionError
from geq.gradients import Implicit
from geq.kernels import GaussianKernel, Kernel, LinearKernel, PolynomialKernel, SigmoidKernel
from geq.layers.energy import GAUSSIAN_GRADIENT, GEQ2d, OptEq2d, injection
from geq.layers.folding import NormFolding
from geq.model.config import ADDED_LATER
from geq.model.gradient_config import DifferentiationConfig
from geq.model.isometric_kernel import isometric_kernel
from geq.model.network import FeatureMap, Network
from geq.operators import Convolution
from geq.solvers import Anderson

KernelName = Literal["patch_gaussian", "gaussian", "linear", "polynomial", "sigmoid"]
Gamma = Literal[
    "learned",
    "learned_group",
    "learned_patch",
    "median",
    "paper",
    "paper_detached",
    "paper_batch",
    "fixed",
    "zero",
]
Topology = Literal["parallel", "cascade"]
FeedbackConstraint = Literal["operator", "full", "learned", "gain", "frobenius", "weight", "none"]
Spectrum = Literal["random", "flat"]

GAMMA_RULES: dict[Gamma, Callable[..., GammaRule]] = {
    "learned": LearnedGamma,
    "learned_group": LearnedGamma,
    "learned_patch": LearnedGamma,
    "median": MedianGamma,
    "paper": PaperGamma,
    "paper_detached": partial(PaperGamma, through=False),
    "paper_batch": partial(PaperGamma, per="batch"),
    "fixed": FixedGamma,
    "zero": lambda value: ZeroGamma(),
}
"""Name of a γ rule -> the rule for its number."""

CONSTRAINTS: dict[FeedbackConstraint, Callable[[float], Constraint]] = {
    "operator": SpectralBound,
    "full": SpectralEquality,
    "learned": LearnedSpectralBound,
    "gain": ChannelGainBound,
    "frobenius": FrobeniusBound,
    "weight": lambda bound: WeightNorm(),
    "none": lambda bound: Unconstrained(),
}
"""Name of a rule for ‖W‖ -> the rule for its bound."""


@dataclass(frozen=True)
class BranchConfig(DifferentiationConfig):
    """Configuration of a branch network.

    Args:
        kernel: the similarity of every branch.
        stem_channels: channels of the 3×3 convolutions (norm, ReLU) before the branches, one per stride.
        stem_strides: their strides.
        scales: side of each branch's map, for the side in ``input_shape``; other inputs scale along.
        mid_channels: of each branch.
        out_channels: of every branch's state.
        fusion_scale: side at which the branches are averaged; a cascade has no use for it.
        pool: side to which the head pools (1: global average).
        patch, channel_split, hidden: p, c_s, c_hid of the patch kernel.
        gamma, gamma_value: the rule, and its number: γ ("fixed"), γM ("paper…"), γm ("median", with m at the
            equilibrium) or the start of γm ("learned", one for a branch; "…_group", for each channel group;
            "…_patch", for each patch).
        degree, width: of the polynomial kernel.
        injection_scale: constant factor on the normalised Ux.
        constraint, bound: constraint on W, and the bound of all constraints but "weight" and "none".
        feedback_start: factor on the random weights that W starts with. Those of 1 start above the usual
            bounds, which cut them; rules that keep ‖W‖ for any V ("full", "learned", "gain") start alike.
        feedback_spectrum: "random", or "flat": W starts as ``bound`` times an isometry (times
            ``feedback_start``), so that every direction has the feedback that one has otherwise.
        tol, max_steps, memory: of the Anderson solver.
        topology: "parallel" as in the papers, or "cascade".
        gradient and the rest: how the fixed point is differentiated; only "averaging" uses a
            regulariser.
    """

    kernel: KernelName = field(default="patch_gaussian", kw_only=True)
    stem_channels: tuple[int, ...] = field(kw_only=True)
    stem_strides: tuple[int, ...] = field(kw_only=True)
    scales: tuple[int, ...] = field(kw_only=True)
    mid_channels: tuple[int, ...] = field(kw_only=True)
    out_channels: int = field(kw_only=True)
    fusion_scale: int = field(kw_only=True)
    pool: int = field(default=1, kw_only=True)
    patch: int = field(default=2, kw_only=True)
    channel_split: int = field(default=8, kw_only=True)
    hidden: int = field(default=64, kw_only=True)
    gamma: Gamma = field(default="learned", kw_only=True)
    gamma_value: float = field(default=0.2, kw_only=True)
    degree: int = field(default=2, kw_only=True)
    injection_scale: float = field(default=1.0, kw_only=True)
    constraint: FeedbackConstraint = field(default="operator", kw_only=True, metadata={"recorded_as": "norm"})
    bound: float = field(default=0.95, kw_only=True)
    tol: float = field(default=1e-3, kw_only=True)
    max_steps: int = field(default=50, kw_only=True)
    memory: int = field(default=5, kw_only=True)
    topology: Topology = field(default="parallel", kw_only=True, metadata=ADDED_LATER)
    width: float = field(default=1.0, kw_only=True, metadata=ADDED_LATER)
    feedback_start: float = field(default=1.0, kw_only=True, metadata=ADDED_LATER)
    feedback_spectrum: Spectrum = field(default="random", kw_only=True, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.regulariser != "none" and self.gradient != "averaging":
            raise OptionError(
                f"the regulariser of this network is for gradient averaging: got {self.regulariser} with "
                f"{self.gradient}; only a Deep OptEq can have it in its problem"
            )
        if not self.scales or len(self.scales) != len(self.mid_channels):
            raise OptionError(
                "scales and mid_channels need one entry per branch: "
                f"got {self.scales} and {self.mid_channels}"
            )
        if not self.stem_strides or len(self.stem_strides) != len(self.stem_channels):
            raise OptionError(
                "stem_channels and stem_strides need one entry per convolution: "
                f"got {self.stem_channels} and {self.stem_strides}"
            )
        if min(self.stem_strides) < 1:
            raise OptionError(f"stem_strides must be at least 1: got {self.stem_strides}")
        for scale in (*self.scales, self.fusion_scale):
            if scale < 1 or self.stem_scale % scale:
                raise OptionError(
                    f"every scale must divide the side after the stem, {self.stem_scale}: got {scale}"
                )
        if not self.feedback_start > 0:
            raise OptionError(
                f"feedback_start must be positive: got {self.feedback_start}; with 0, W would stay 0 for ever"
            )
        if self.topology == "cascade":
            for before, after in pairwise((self.stem_scale, *self.scales)):
                if before % after:
                    raise OptionError(
                        "in a cascade every scale must divide the one before it (the first, the side after "
                        f"the stem): got {before}, then {after}"
                    )

    def implicit(self) -> Implicit:
        return GAUSSIAN_GRADIENT if self.kernel in ("patch_gaussian", "gaussian") else super().implicit()

    @property
    def stem_scale(self) -> int:
        """Side of the map after the stem."""
        side = self.input_shape[1]
        for stride in self.stem_strides:
            side = -(-side // stride)
        return side

    def gamma_rule(self, mid_channels: int, scale: int) -> GammaRule:
        groups = max(1, mid_channels // self.channel_split)
        places = groups * max(1, scale // self.patch) ** 2
        parts = {"learned_group": {"parts": groups}, "learned_patch": {"parts": places}}.get(self.gamma, {})
        return GAMMA_RULES[self.gamma](self.gamma_value, **parts)

    def equilibrium(self, in_channels: int, mid_channels: int, scale: int) -> Equilibrium:
        """One branch."""
        layer = self.layer(in_channels, mid_channels, scale)
        W, flat = layer.problem.W, self.feedback_spectrum == "flat"
        # As a rule nothing is changed: arithmetic on the outline that a network is loaded into is slow.
        if flat or self.feedback_start != 1:
            weight = self.bound * isometric_kernel(*W.raw_weight.shape[:3]) if flat else W.raw_weight
            W.restart(self.feedback_start * weight)
        return layer

    def layer(self, in_channels: int, mid_channels: int, scale: int) -> Equilibrium:
        solver, gradient, constraint = (
            Anderson(self.memory),
            self.differentiation(),
            CONSTRAINTS[self.constraint](self.bound),
        )
        if self.kernel == "patch_gaussian":
            return GEQ2d(
                in_channels,
                self.out_channels,
                mid_channels,
                patch=self.patch,
                channel_split=self.channel_split,
                hidden=self.hidden,
                gamma=self.gamma_rule(mid_channels, scale),
                constraint=constraint,
                injection_scale=self.injection_scale,
                solver=solver,
                gradient=gradient,
                tol=self.tol,
                max_steps=self.max_steps,
            )
        if self.kernel == "gaussian":
            U = injection(Convolution(in_channels, mid_channels), normalise=True, scale=self.injection_scale)
            W = Convolution(self.out_channels, mid_channels, constraint=constraint)
            problem = EnergyProblem(GaussianKernel(self.gamma_rule(self.channel_split, self.patch)), W, U)
            return Equilibrium(problem, solver, gradient, self.tol, self.max_steps)
        kernels: dict[str, Kernel] = {
            "linear": LinearKernel(),
            "polynomial": PolynomialKernel(self.degree, width=self.width),
            "sigmoid": SigmoidKernel(),
        }
        return OptEq2d(
            in_channels,
            self.out_channels,
            mid_channels,
            kernel=kernels[self.kernel],
            constraint=constraint,
            solver=solver,
            gradient=gradient,
            tol=self.tol,
            max_steps=self.max_steps,
        )


class BranchNetwork(Network):
    """Stem, parallel equilibria, fusion, head: see the module's text.

    >>> import torch
    >>> from geq.model.model_registry import create_model
    >>> create_model("geq_tiny")(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    family = "branch"
    config_class = BranchConfig
    config: BranchConfig

    def __init__(self, config: BranchConfig) -> None:
        super().__init__(config)
        channels = (config.input_shape[0], *config.stem_channels)
        self.stem = NormFolding()
        for before, after, stride in zip(channels, channels[1:], config.stem_strides, strict=False):
            self.stem.append(nn.Conv2d(before, after, 3, stride, padding=1, bias=False))
            self.stem.append(nn.BatchNorm2d(after))
            self.stem.append(nn.ReLU())
        cascade = config.topology == "cascade"
        self.branches = nn.ModuleList(
            config.equilibrium(config.out_channels if cascade and number else channels[-1], mid, scale)
            for number, (mid, scale) in enumerate(zip(config.mid_channels, config.scales, strict=True))
        )
        self.between = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(config.out_channels), nn.ReLU())
            for _ in (config.scales[1:] if cascade else ())
        )
        self.norm = nn.BatchNorm2d(config.out_channels)
        self.head = nn.Linear(config.out_channels * config.pool**2, config.num_classes)

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch classes"]:
        self.check_input(x)
        return self.classify(self.features(x))

    def features(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch out h w"]:
        """The fused equilibria, before the norm."""
        x = self.stem(x)
        config = self.config
        if config.topology == "cascade":
            return self.last_of_cascade(x)
        fused: Tensor | None = None
        for branch, scale in zip(self.branches, config.scales, strict=True):
            z = resize(branch(shrink(x, config.stem_scale // scale)), scale, config.fusion_scale)
            fused = z if fused is None else fused + z
        assert fused is not None
        return fused / len(config.scales)

    def last_of_cascade(
        self, x: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch out h w"]:
        scales = (self.config.stem_scale, *self.config.scales)
        follow = (*self.between, nn.Identity())
        for branch, after, (before, scale) in zip(self.branches, follow, pairwise(scales), strict=True):
            x = after(branch(shrink(x, before // scale)))
        return x

    def classify(self, features: Float[Tensor, "batch out h w"]) -> Float[Tensor, "batch classes"]:
        z = self.norm(features).relu()
        z = z.mean((2, 3)) if self.config.pool == 1 else F.adaptive_avg_pool2d(z, self.config.pool).flatten(1)
        return self.head(z)

    def last_feature_map(self) -> FeatureMap:
        # The mean of the branches is no module's output, but it is what the norm after it is given.
        label = "fused equilibria" if self.config.topology == "parallel" else "last equilibrium"
        return FeatureMap(label, self.norm, at_input=True)


def shrink(x: Tensor, factor: int) -> Tensor:
    """Average-pooling by a whole factor."""
    if x.shape[-1] % factor or x.shape[-2] % factor:
        raise InputError(
            f"the map after the stem must be divisible by {factor}: got {x.shape[-2]}×{x.shape[-1]}; "
            "pad or resize the images"
        )
    return x if factor == 1 else F.avg_pool2d(x, factor)


def resize(z: Tensor, scale: int, target: int) -> Tensor:
    """From one branch's scale to the common one: average-pooling down, nearest neighbour up."""
    if scale >= target:
        return shrink(z, scale // target)
    return F.interpolate(z, scale_factor=float(target // scale), mode="nearest")
