"""Penalties f of the hidden problem: a value and a proximal map. An activation is a prox.

``prox(s, step)`` solves ``argmin_z  step·f(z) + ½‖z − s‖²`` elementwise, and ``slope(s)`` is its derivative
in s (a diagonal, given as a tensor of the same shape), which makes the adjoint system of the implicit
gradient symmetric. The activation is σ = prox(·, 1); :mod:`geq.penalties.activation` finds its penalty.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geq.certificates.well_posedness import uncertified
from geq.errors import CheckedOptions, OptionError


def per_sample(values: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch"]:
    """Sum of everything that belongs to one sample."""
    return values.flatten(1).sum(1) if values.dim() > 1 else values


class Penalty(nn.Module, metaclass=CheckedOptions):
    """Base class: a convex, separable f. Subclasses give ``cost``, ``prox`` and ``slope``.

    One without ``primitive`` may give ``value`` instead of ``cost``. A certificate of uniqueness rests on the
    convexity of f, which nobody can see from a ``prox``: a subclass of which it is proved says so with
    ``convex = True``.
    """

    convex: bool = False
    """Whether f is proved to be convex, so that ``prox`` is monotone and 1-Lipschitz."""

    def unproved(self) -> str:
        """Why the convexity of f is not proved, or ""."""
        replaced = uncertified(self, "convex", ("prox", "prox_", "cost", "value"))
        if replaced or self.convex:
            return replaced
        return f"the activation of {type(self).__name__} is not proved to be monotone and 1-Lipschitz"

    def cost(self, z: Float[Tensor, "*state"]) -> Float[Tensor, "*state"]:
        """f of every entry."""
        raise NotImplementedError

    def value(self, z: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch"]:
        """1ᵀf(z), one number per sample."""
        return per_sample(self.cost(z))

    @abstractmethod
    def prox(
        self, s: Float[Tensor, " batch *state"], step: float = 1.0
    ) -> Float[Tensor, " batch *state"]: ...

    def prox_(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        """``prox(s)`` without a graph, in the memory of s where that is possible."""
        return self.prox(s)

    @abstractmethod
    def slope(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        """Derivative of ``prox(s, 1)``; between 0 and 1 because a prox is monotone and 1-Lipschitz."""

    def primitive(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        """σ̃(s), an antiderivative of the activation σ = prox(·, 1), of every entry (OptEq, theorem 1).

        By Moreau it is the conjugate of f + ½z², whose maximum over z is at σ(s): σ̃ = sσ − ½σ² − f(σ). It
        is ∫₀ˢσ wherever f and σ vanish at 0.
        """
        z = self.prox(s)
        return (s - 0.5 * z) * z - self.cost(z)

    def slope_(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        """``slope(s)`` without a graph, in the memory of s where that is possible."""
        return self.slope(s)


class NoPenalty(Penalty):
    """f = 0: the prox is the identity.

    >>> NoPenalty().prox(torch.tensor([[-1.0, 2.0]]))
    tensor([[-1.,  2.]])
    """

    convex = True

    def cost(self, z: Float[Tensor, "*state"]) -> Float[Tensor, "*state"]:
        return torch.zeros_like(z)

    def prox(self, s: Float[Tensor, " batch *state"], step: float = 1.0) -> Float[Tensor, " batch *state"]:
        return s

    def slope(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        return torch.ones_like(s)


class Box(Penalty):
    """f = indicator of ``low ≤ z ≤ high``: the prox clips.

    >>> Box(0.0, 1.0).prox(torch.tensor([[-1.0, 0.5, 2.0]]))
    tensor([[0.0000, 0.5000, 1.0000]])
    """

    convex = True

    def __init__(self, low: float, high: float) -> None:
        super().__init__()
        if not low < high:
            raise OptionError(f"Box needs low < high: got low={low}, high={high}")
        self.low, self.high = float(low), float(high)

    def cost(self, z: Float[Tensor, "*state"]) -> Float[Tensor, "*state"]:
        outside = (z < self.low) | (z > self.high)
        return torch.zeros_like(z).masked_fill(outside, math.inf)

    def prox(self, s: Float[Tensor, " batch *state"], step: float = 1.0) -> Float[Tensor, " batch *state"]:
        return s.clamp(self.low, self.high)

    def slope(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        return ((s > self.low) & (s < self.high)).to(s.dtype)

    def extra_repr(self) -> str:
        return f"low={self.low}, high={self.high}"


class NonNegative(Box):
    """f = indicator of ``z ≥ 0``: the prox is ReLU. The penalty of every model in the papers.

    >>> NonNegative().prox(torch.tensor([[-1.0, 2.0]]))
    tensor([[0., 2.]])
    """

    def __init__(self) -> None:
        super().__init__(0.0, math.inf)

    def prox(self, s: Float[Tensor, " batch *state"], step: float = 1.0) -> Float[Tensor, " batch *state"]:
        return s.relu()

    def prox_(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        return s.relu_()

    def slope(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        return (s > 0).to(s.dtype)

    def slope_(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        return s.relu_().sign_()

    def extra_repr(self) -> str:
        return ""


class ElasticNet(Penalty):
    """f = l1·|z| + ½ l2·z²: the prox is a soft threshold followed by a shrinkage by 1/(1 + l2).

    >>> ElasticNet(l1=1.0, l2=1.0).prox(torch.tensor([[-3.0, 0.5, 3.0]]))
    tensor([[-1.,  0.,  1.]])
    """

    convex = True

    def __init__(self, l1: float, l2: float) -> None:
        super().__init__()
        if not (l1 >= 0 and l2 >= 0):
            raise OptionError(f"the weights of a penalty must not be negative: got l1={l1}, l2={l2}")
        self.l1, self.l2 = float(l1), float(l2)

    def cost(self, z: Float[Tensor, "*state"]) -> Float[Tensor, "*state"]:
        return self.l1 * z.abs() + (0.5 * self.l2) * z.square()

    def prox(self, s: Float[Tensor, " batch *state"], step: float = 1.0) -> Float[Tensor, " batch *state"]:
        return nn.functional.softshrink(s, self.l1 * step) / (1.0 + self.l2 * step)

    def slope(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        return (s.abs() > self.l1).to(s.dtype) / (1.0 + self.l2)

    def extra_repr(self) -> str:
        return f"l1={self.l1}, l2={self.l2}"


class L1(ElasticNet):
    """f = weight·|z|: the prox is the soft threshold.

    >>> L1(1.0).prox(torch.tensor([[-3.0, 0.5, 3.0]]))
    tensor([[-2.,  0.,  2.]])
    """

    def __init__(self, weight: float) -> None:
        super().__init__(l1=weight, l2=0.0)

    def extra_repr(self) -> str:
        return f"weight={self.l1}"


class LeakyPenalty(Penalty):
    """f = ½(1/slope − 1)z² for z < 0, and 0 above: the prox is leaky ReLU.

    >>> LeakyPenalty(0.1).prox(torch.tensor([[-1.0, 2.0]]))
    tensor([[-0.1000,  2.0000]])
    """

    convex = True

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        if not 0 < negative_slope <= 1:
            raise OptionError(
                "leaky ReLU is a prox where its negative slope lies in (0, 1] (0 is ReLU, NonNegative): "
                f"got {negative_slope}"
            )
        self.negative_slope = float(negative_slope)

    @property
    def curvature(self) -> float:
        return 1 / self.negative_slope - 1

    def cost(self, z: Float[Tensor, "*state"]) -> Float[Tensor, "*state"]:
        return (0.5 * self.curvature) * z.clamp_max(0).square()

    def prox(self, s: Float[Tensor, " batch *state"], step: float = 1.0) -> Float[Tensor, " batch *state"]:
        return nn.functional.leaky_relu(s, 1 / (1 + step * self.curvature))

    def slope(self, s: Float[Tensor, " batch *state"]) -> Float[Tensor, " batch *state"]:
        return torch.where(s > 0, 1.0, self.negative_slope).to(s.dtype)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"
