"""Kernels on inner products ⟨v, z⟩: linear (OptEq), polynomial and sigmoid (GEQ table 4)."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor

from geq.errors import OptionError
from geq.kernels.base import Kernel, Maps, Scores
from geq.penalties.base import per_sample


class InnerProductKernel(Kernel):
    """Base class of kernels on the inner product ⟨v, z⟩; the feedback enters as ½‖Wz‖²."""

    acts_on = "state"

    @abstractmethod
    def slope(self, product: Scores, size: int) -> Tensor:
        """dS/d⟨v, u⟩ for each sample, where a sample has ``size`` entries."""

    def grad(self, u: Maps, v: Maps) -> Maps:
        slope = self.slope(per_sample(u * v), u[0].numel() if len(u) else 1)
        return slope.view(-1, *[1] * (u.dim() - 1)) * v


class LinearKernel(InnerProductKernel):
    """S = ⟨v, z⟩ (+ ½‖Wz‖²): OptEq as GEQ reformulates it, z = σ(WᵀWz + Ux + b) (GEQ eq. 3–4).

    Well posed for ‖W‖ < 1: the Hessian of S is WᵀW.
    """

    def value(self, u: Maps, v: Maps) -> Scores:
        return per_sample(u * v)

    def slope(self, product: Scores, size: int) -> Tensor:
        return torch.ones_like(product)

    def grad(self, u: Maps, v: Maps) -> Maps:
        return v

    def curvature(self, feedback_norm: float) -> tuple[float, float] | None:
        return 0.0, feedback_norm**2


class PolynomialKernel(InnerProductKernel):
    """S = (n/d)(offset + ⟨v, z⟩/n)^d (+ ½‖Wz‖²), n = ``width`` times the number of entries of a sample.

    GEQ table 4 prints ⟨v, z⟩^d: ``PolynomialKernel(d, offset=0, averaged=False)``. There z = 0 is a fixed
    point at which every gradient vanishes, and random starts explode; hence the offset and the mean. With
    them the gradient is (offset + ⟨v, z⟩/n)^{d−1} v, of the size of the linear kernel's. For d = 2 the
    curvature is vvᵀ/n + WᵀW: a sample has an equilibrium for certain while the mean of its v² is below
    ``width``·(1 − ‖W‖²), and an input of unit variance may exceed that where ``width`` is 1. For d ≥ 3 the
    objective is not bounded below: with inputs of unit variance there is no equilibrium, and the solver says
    so.
    """

    def __init__(
        self, degree: int = 2, offset: float = 1.0, averaged: bool = True, width: float = 1.0
    ) -> None:
        super().__init__()
        if degree < 2 or degree != int(degree):
            raise OptionError(
                f"degree must be a whole number of at least 2: got {degree}; degree 1 is LinearKernel()"
            )
        if not (math.isfinite(width) and width > 0):
            raise OptionError(f"width must be finite and positive: got {width}; the default is 1")
        if not averaged and width != 1:
            raise OptionError(f"width is of the mean: got {width} with averaged=False; leave it out")
        self.degree, self.offset, self.averaged = degree, float(offset), averaged
        self.width = float(width)

    def value(self, u: Maps, v: Maps) -> Scores:
        if not self.averaged:
            return (self.offset + per_sample(u * v)) ** self.degree
        size = self.width * max(1, math.prod(u.shape[1:]))
        return (size / self.degree) * (self.offset + per_sample(u * v) / size) ** self.degree

    def slope(self, product: Scores, size: int) -> Tensor:
        if not self.averaged:
            return self.degree * (self.offset + product) ** (self.degree - 1)
        return (self.offset + product / (self.width * size)) ** (self.degree - 1)

    def extra_repr(self) -> str:
        return f"degree={self.degree}, offset={self.offset}, averaged={self.averaged}, width={self.width:g}"


class SigmoidKernel(InnerProductKernel):
    """S = n·tanh(⟨v, z⟩/n) (+ ½‖Wz‖²), n the number of entries of a sample.

    GEQ table 4 prints tanh⟨v, z⟩, which is ``SigmoidKernel(averaged=False)``; with sums over a whole map it
    saturates and does not converge.
    """

    def __init__(self, averaged: bool = True) -> None:
        super().__init__()
        self.averaged = averaged

    def value(self, u: Maps, v: Maps) -> Scores:
        size = max(1, math.prod(u.shape[1:])) if self.averaged else 1
        return size * torch.tanh(per_sample(u * v) / size)

    def slope(self, product: Scores, size: int) -> Tensor:
        return 1 - torch.tanh(product / (size if self.averaged else 1)).square()

    def extra_repr(self) -> str:
        return f"averaged={self.averaged}"
