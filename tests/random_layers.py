"""Random small layers in double precision, dense and convolutional, for properties that must always hold."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

import energy_problems
import geq


@dataclass(frozen=True)
class Case:
    """A layer and a batch of inputs."""

    layer: geq.Equilibrium
    x: Tensor


def build(
    kernel: str, seed: int, feedback: float, gamma: float, injection: float, bias: float, size: float
) -> Case:
    """
    Args:
        kernel: "gaussian", "linear" (dense), "patch", "conv-gaussian" or "conv-linear".
        seed: of all weights and inputs.
        feedback: ‖W‖.
        gamma: γ of a Gaussian kernel.
        injection, bias: factors on U and b.
        size: factor on the inputs.
    """
    norm = geq.constraints.SpectralBound(feedback)
    if kernel in ("gaussian", "linear"):
        problem, x = (
            energy_problems.dense(kernel, constraint=norm, seed=seed),
            energy_problems.vectors(4, seed),
        )
    else:
        name = {"patch": "patch", "conv-gaussian": "gaussian", "conv-linear": "linear"}[kernel]
        padding = ("zeros", "circular")[seed % 2]
        problem = energy_problems.conv(name, padding, constraint=norm, seed=seed)
        x = energy_problems.maps(4, seed)
    with torch.no_grad():
        problem.W.raw_weight.mul_(20)  # so that the norm rule decides
        problem.U.raw_weight.mul_(injection)  # type: ignore[union-attr, operator]
        problem.U.bias.mul_(bias)  # type: ignore[union-attr, operator]
    if isinstance(problem.kernel, geq.kernels.GaussianKernel):
        problem.kernel.gamma = geq.bandwidth.FixedGamma(gamma)
    return Case(energy_problems.layer_of(problem, on_failure="ignore"), size * x)


KERNELS = ("gaussian", "patch", "conv-gaussian", "linear", "conv-linear")


@dataclass(frozen=True)
class Recipe:
    """The arguments of :func:`build`; a strategy must not do more than draw them."""

    kernel: str
    seed: int
    feedback: float
    gamma: float
    injection: float
    bias: float
    size: float

    def build(self) -> Case:
        return build(**vars(self))


@st.composite
def recipes(draw: st.DrawFn, kernels: tuple[str, ...] = KERNELS, largest: float = 0.95) -> Recipe:
    """Any such layer; the linear kernel stays below ‖W‖ = 0.95."""
    kernel = draw(st.sampled_from(kernels))
    limit = min(largest, 0.95) if "linear" in kernel else largest
    return Recipe(
        kernel,
        draw(st.integers(0, 10**5)),
        draw(st.floats(0.1, limit)),
        10 ** draw(st.floats(-2, 1)),
        draw(st.floats(0.05, 2)),
        draw(st.floats(0, 3)),
        10 ** draw(st.floats(-2, 1)),
    )
