"""Similarities S(u, v): what the hidden problem rewards. Changing S changes the network.

There are two places where a similarity can look at the state z:

* ``acts_on = "features"``: u = Wz and v = Ux + b are compared, S(z; x) = value(Wz, v), so ∇S = Wᵀ grad(Wz,
  v);
* ``acts_on = "state"``: u is z itself, and the feedback comes as a quadratic, S(z; x) = value(z, v) + ½‖Wz‖²,
  so ∇S = grad(z, v) + WᵀWz (the linear, polynomial and sigmoid kernels of GEQ table 4).

One's own similarity needs only ``value``, one number per sample; its gradient is derived.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geq.bandwidth import FixedGamma, GammaRule, ZeroGamma, as_gamma_rule, statistics_wanted
from geq.certificate import uncertified
from geq.errors import CheckedOptions, GradientError, InputError, OptionError
from geq.penalties.base import per_sample

PEAK_CURVATURE = 2.0 * math.exp(-1.5)
"""
Largest eigenvalue of the Hessian of (1/2γ)e^{−γ‖d‖²} in d: max over t of e^{−t}(2t − 1), reached at t = γ‖d‖²
= 3/2.
"""


CLOSED_FORMS = ("grad", "slope", "bind", "bind_observing")
"""Methods that know the gradient of ``value`` without deriving it."""


class Similarity(nn.Module, metaclass=CheckedOptions):
    """Base class. Subclasses give ``value`` and, if they want a fast layer, ``grad``.

    >>> class InverseMultiquadric(Similarity):
    ...     def value(self, u, v):
    ...         return (1 + ((v - u) ** 2).sum(-1)).rsqrt()
    >>> u, v = torch.zeros(1, 2), torch.tensor([[3.0, 0.0]])
    >>> InverseMultiquadric().grad(u, v).detach()
    tensor([[0.0949, 0.0000]])
    """

    acts_on: Literal["features", "state"] = "features"

    @abstractmethod
    def value(
        self, u: Float[Tensor, "batch *map"], v: Float[Tensor, "batch *map"]
    ) -> Float[Tensor, " batch"]:
        """S(u, v), one number per sample."""

    def grad(
        self, u: Float[Tensor, "batch *map"], v: Float[Tensor, "batch *map"]
    ) -> Float[Tensor, "batch *map"]:
        """∂S/∂u; here by autograd of ``value``, differentiable again where gradients are recorded."""
        return derivative(lambda argument: self.value(argument, v), u)

    def bind(self, v: Float[Tensor, "batch *map"]) -> BoundKernel:
        """What a solve uses: v fixed, and everything that depends on v or the weights computed once."""
        return BoundKernel(self, v)

    def bind_as_defined(self, v: Float[Tensor, "batch *map"]) -> BoundKernel:
        """:meth:`bind`, except for a subclass with a ``value`` of its own that inherits closed forms of
        another: its gradient is derived.
        """
        return BoundKernel(self, v) if self.inherits_closed_form() else self.bind(v)

    def inherits_closed_form(self) -> bool:
        """Whether ``value`` is defined below the closed forms of its gradient, which are of another one."""
        kinds = [
            kind for kind in type(self).__mro__ if issubclass(kind, Similarity) and kind is not Similarity
        ]
        nearest = next((kind for kind in kinds if not vars(kind).keys().isdisjoint(CLOSED_FORMS)), None)
        return nearest is not None and any("value" in vars(kind) for kind in kinds[: kinds.index(nearest)])

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse maps (without batch axis) that this similarity cannot take."""

    def curvature(self, feedback_norm: float) -> tuple[float, float] | None:
        """Bounds on the eigenvalues of ∇²S in z where ‖W‖ ≤ ``feedback_norm``; None where none is known."""
        return None

    def certified_curvature(self, feedback_norm: float) -> tuple[float, float] | str:
        """:meth:`curvature`, or why there is none."""
        bounds = self.curvature(feedback_norm)
        if bounds is None:
            return "no bound is known for this kernel"
        return uncertified(self, "curvature", ("value", *CLOSED_FORMS)) or bounds


class BoundKernel:
    """S(·, v) for one v; subclasses keep what they computed once."""

    def __init__(self, similarity: Similarity, v: Tensor) -> None:
        self.similarity, self.v = similarity, v

    def value(self, u: Tensor) -> Tensor:
        value = self.similarity.value(u, self.v)
        if value.shape != u.shape[:1]:
            raise InputError(
                f"{type(self.similarity).__name__}.value must give one number per sample, "
                f"shape ({u.shape[0]},): got {tuple(value.shape)}; sum over the other axes"
            )
        return value

    def grad(self, u: Tensor) -> Tensor:
        # The check of `value` is worth having only where `grad` goes through it.
        if type(self.similarity).grad is Similarity.grad or self.similarity.inherits_closed_form():
            return derivative(self.value, u)
        return self.similarity.grad(u, self.v)


def derivative(function: Callable[[Tensor], Tensor], u: Tensor) -> Tensor:
    """Gradient in u of a per-sample function, keeping the graph if the caller is recording one."""
    if torch.is_inference_mode_enabled():
        # Nothing can be recorded there, so that the answer would silently be zero.
        raise GradientError(
            "a derived gradient needs autograd, which torch.inference_mode() switches off for good: "
            "use torch.no_grad(), or an Equilibrium, which works in both"
        )
    recording = torch.is_grad_enabled()
    with torch.enable_grad():
        argument = u if recording and u.requires_grad else u.detach().requires_grad_()
        total = function(argument).sum()
        if not total.requires_grad:
            return torch.zeros_like(u)  # the function does not depend on u
        (gradient,) = torch.autograd.grad(total, argument, create_graph=recording, materialize_grads=True)
    return gradient


class InnerProduct(Similarity):
    """Similarities of the inner product ⟨v, z⟩; the feedback enters as ½‖Wz‖²."""

    acts_on = "state"

    @abstractmethod
    def slope(self, product: Float[Tensor, " batch"], size: int) -> Tensor:
        """dS/d⟨v, u⟩ for each sample, where a sample has ``size`` entries."""

    def grad(
        self, u: Float[Tensor, "batch *map"], v: Float[Tensor, "batch *map"]
    ) -> Float[Tensor, "batch *map"]:
        slope = self.slope(per_sample(u * v), u[0].numel() if len(u) else 1)
        return slope.view(-1, *[1] * (u.dim() - 1)) * v


class Linear(InnerProduct):
    """S = ⟨v, z⟩ (+ ½‖Wz‖²): OptEq as GEQ reformulates it, z = σ(WᵀWz + Ux + b) (GEQ eq. 3–4).

    Well posed for ‖W‖ < 1: the Hessian of S is WᵀW.
    """

    def value(
        self, u: Float[Tensor, "batch *map"], v: Float[Tensor, "batch *map"]
    ) -> Float[Tensor, " batch"]:
        return per_sample(u * v)

    def slope(self, product: Float[Tensor, " batch"], size: int) -> Tensor:
        return torch.ones_like(product)

    def grad(
        self, u: Float[Tensor, "batch *map"], v: Float[Tensor, "batch *map"]
    ) -> Float[Tensor, "batch *map"]:
        return v

    def curvature(self, feedback_norm: float) -> tuple[float, float] | None:
        return 0.0, feedback_norm**2


class Polynomial(InnerProduct):
    """S = (n/d)(offset + ⟨v, z⟩/n)^d (+ ½‖Wz‖²), n = ``width`` times the number of entries of a sample.

    GEQ table 4 prints ⟨v, z⟩^d, which is ``Polynomial(d, offset=0, averaged=False)``. There z = 0 is a fixed
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
                f"degree must be a whole number of at least 2: got {degree}; degree 1 is Linear()"
            )
        if not (math.isfinite(width) and width > 0):
            raise OptionError(f"width must be finite and positive: got {width}; the default is 1")
        if not averaged and width != 1:
            raise OptionError(f"width is of the mean: got {width} with averaged=False; leave it out")
        self.degree, self.offset, self.averaged = degree, float(offset), averaged
        self.width = float(width)

    def value(
        self, u: Float[Tensor, "batch *map"], v: Float[Tensor, "batch *map"]
    ) -> Float[Tensor, " batch"]:
        if not self.averaged:
            return (self.offset + per_sample(u * v)) ** self.degree
        size = self.width * max(1, math.prod(u.shape[1:]))
        return (size / self.degree) * (self.offset + per_sample(u * v) / size) ** self.degree

    def slope(self, product: Float[Tensor, " batch"], size: int) -> Tensor:
        if not self.averaged:
            return self.degree * (self.offset + product) ** (self.degree - 1)
        return (self.offset + product / (self.width * size)) ** (self.degree - 1)

    def extra_repr(self) -> str:
        return f"degree={self.degree}, offset={self.offset}, averaged={self.averaged}, width={self.width:g}"


class Sigmoid(InnerProduct):
    """S = n·tanh(⟨v, z⟩/n) (+ ½‖Wz‖²), n the number of entries of a sample.

    GEQ table 4 prints tanh⟨v, z⟩, which is ``Sigmoid(averaged=False)``; with sums over a whole map it
    saturates and does not converge.
    """

    def __init__(self, averaged: bool = True) -> None:
        super().__init__()
        self.averaged = averaged

    def value(
        self, u: Float[Tensor, "batch *map"], v: Float[Tensor, "batch *map"]
    ) -> Float[Tensor, " batch"]:
        size = max(1, math.prod(u.shape[1:])) if self.averaged else 1
        return size * torch.tanh(per_sample(u * v) / size)

    def slope(self, product: Float[Tensor, " batch"], size: int) -> Tensor:
        return 1 - torch.tanh(product / (size if self.averaged else 1)).square()

    def extra_repr(self) -> str:
        return f"averaged={self.averaged}"


class RadialSimilarity(Similarity):
    """Similarities (1/2γ) Σ e^{−γq} over squared distances q of patches; ``bind`` fixes γ for the solve.

    The Hessian in the difference is −β(I − 2γddᵀ), with eigenvalues in [−1, 2e^{−3/2}]: so ‖W‖ < 1 makes the
    plain iteration contract, and ‖W‖² < e^{3/2}/2 ≈ 2.24 keeps the hidden objective strongly convex.
    """

    gamma: GammaRule

    def bind(self, v: Float[Tensor, "batch *map"]) -> BoundRadial:
        return self.bind_observing(v, observe=self.training and statistics_wanted())

    @abstractmethod
    def bind_observing(self, v: Tensor, observe: bool) -> BoundRadial: ...

    def value(
        self, u: Float[Tensor, "batch *map"], v: Float[Tensor, "batch *map"]
    ) -> Float[Tensor, " batch"]:
        return self.bind_observing(v, observe=False).value(u)

    def grad(
        self, u: Float[Tensor, "batch *map"], v: Float[Tensor, "batch *map"]
    ) -> Float[Tensor, "batch *map"]:
        return self.bind_observing(v, observe=False).grad(u)

    def curvature(self, feedback_norm: float) -> tuple[float, float] | None:
        flat = type(self.gamma) in (FixedGamma, ZeroGamma) and self.gamma.value == 0
        return -(feedback_norm**2), 0.0 if flat else PEAK_CURVATURE * feedback_norm**2


class BoundRadial(BoundKernel, ABC):
    """A radial similarity with γ known. ``distances`` and ``pull`` are what the two kernels differ in."""

    similarity: RadialSimilarity
    gamma: Tensor

    @abstractmethod
    def distances(self, u: Tensor) -> Tensor:
        """q, ``(batch, patches)``."""

    def attention(self, u: Tensor) -> Tensor:
        """β = e^{−γq}, one weight per patch."""
        return torch.exp(-self.gamma * self.distances(u))

    @property
    @abstractmethod
    def inputs(self) -> tuple[Tensor, ...]:
        """What ``grad`` depends on besides u, with its graph."""

    @abstractmethod
    def product(self, u: Tensor, q: Tensor) -> Tensor:
        """∂grad/∂u·q, a symmetric product, in closed form and without a graph."""

    @abstractmethod
    def pull_back(self, u: Tensor, y: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """``grad(u)``, and the gradients of ⟨y, grad(u)⟩ in :attr:`inputs`, the first of which is v."""

    def reduced(self, gradient: Tensor) -> Tensor:
        """A gradient in γ, ``(batch, patches)`` or summed over the patches, summed to γ's own shape."""
        return gradient.sum() if self.gamma.dim() == 0 else gradient.sum_to_size(self.gamma.shape)

    def value(self, u: Tensor) -> Tensor:
        q = self.distances(u)
        # For γ = 0 the limit, up to the constant 1/2γ.
        exact = torch.exp(-self.gamma * q) / (2 * torch.where(self.gamma > 0, self.gamma, 1.0))
        return torch.where(self.gamma > 0, exact, -0.5 * q).sum(1)


class Gaussian(RadialSimilarity):
    """S = (1/2γ) e^{−γ‖v − u‖²}, one distance per sample: z = σ(e^{−γ‖r‖²}Wᵀr), r = Ux + b − Wz (GEQ eq.
    5–6).

    Args:
        gamma: a number (fixed γ) or a rule; default :class:`LearnedGamma`. In high dimension a fixed γ
            underflows to a dead layer (β = 0 and every gradient 0), which is why rules are relative to a
            scale.

    >>> Gaussian(gamma=0.5).value(torch.zeros(1, 2), torch.tensor([[1.0, 1.0]]))
    tensor([0.3679])
    """

    def __init__(self, gamma: float | int | GammaRule | None = None) -> None:
        super().__init__()
        self.gamma = as_gamma_rule(gamma)

    def bind_observing(self, v: Tensor, observe: bool) -> BoundGaussian:
        return BoundGaussian(self, v, observe)


class BoundGaussian(BoundRadial):
    def __init__(self, similarity: Gaussian, v: Tensor, observe: bool) -> None:
        super().__init__(similarity, v)
        expected = v.new_tensor(float(math.prod(v.shape[1:])))
        self.gamma = similarity.gamma.of_batch(per_sample(v.square()).unsqueeze(1), expected, observe)

    def distances(self, u: Tensor) -> Tensor:
        return per_sample((self.v - u).square()).unsqueeze(1)

    def grad(self, u: Tensor) -> Tensor:
        difference, weight, _ = self.weighted(u)
        return weight * difference

    def weighted(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """d = v − u, β and γ, the last two with d's axes."""
        difference = self.v - u
        column = (-1, *[1] * (u.dim() - 1))
        weight = torch.exp(-self.gamma * per_sample(difference.square()).unsqueeze(1))
        return difference, weight.view(column), self.gamma.view(column)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.v, self.gamma

    def product(self, u: Tensor, q: Tensor) -> Tensor:
        d, weight, gamma = self.weighted(u)
        along = per_sample(d * q).view_as(weight)
        return weight * (2 * gamma * along * d - q)

    def pull_back(self, u: Tensor, y: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        d, weight, _ = self.weighted(u)
        along, square = per_sample(d * y), per_sample(d.square())
        return weight * d, (
            -self.product(u, y),
            self.reduced((-weight.flatten() * square * along).unsqueeze(1)),
        )
