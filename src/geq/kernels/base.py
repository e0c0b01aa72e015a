"""Kernels S(u, v): what a hidden objective rewards. Changing the kernel changes the network.

There are two places where a kernel can look at the state z:

* ``acts_on = "features"``: u = Wz and v = Ux + b are compared, S(z; x) = value(Wz, v), so ∇S = Wᵀ grad(Wz,
  v);
* ``acts_on = "state"``: u is z itself, and the feedback comes as a quadratic, S(z; x) = value(z, v) + ½‖Wz‖²,
  so ∇S = grad(z, v) + WᵀWz (the linear, polynomial and sigmoid kernels of GEQ table 4).

A custom kernel needs only ``value``, one number per sample; its gradient is derived.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from geq.certificates.well_posedness import uncertified
from geq.errors import CheckedOptions, GradientError, InputError
from geq.frozen import Freezable
from geq.operators.operator import LinearMap

Maps = Float[Tensor, "batch *map"]
Scores = Float[Tensor, " batch"]

CLOSED_FORMS = ("grad", "slope", "bind")
"""Methods that know the gradient of ``value`` without deriving it."""


class Kernel(Freezable, metaclass=CheckedOptions):
    """Base class. Subclasses give ``value`` and, if they want a fast layer, ``grad``.

    >>> class InverseMultiquadric(Kernel):
    ...     def value(self, u, v):
    ...         return (1 + ((v - u) ** 2).sum(-1)).rsqrt()
    >>> u, v = torch.zeros(1, 2), torch.tensor([[3.0, 0.0]])
    >>> InverseMultiquadric().grad(u, v).detach()
    tensor([[0.0949, 0.0000]])
    """

    acts_on: Literal["features", "state"] = "features"

    def __init_subclass__(cls, **options: Any) -> None:
        """Derive the gradient of a ``value`` that is new: the closed forms inherited are of another one."""
        super().__init_subclass__(**options)
        if "value" in vars(cls) and vars(cls).keys().isdisjoint(CLOSED_FORMS):
            cls.grad, cls.bind = Kernel.grad, Kernel.bind  # type: ignore[method-assign]

    @abstractmethod
    def value(self, u: Maps, v: Maps) -> Scores:
        """Return S(u, v), one number per sample."""

    def grad(self, u: Maps, v: Maps) -> Maps:
        """Return ∂S/∂u; here by autograd of ``value``, differentiable again where gradients are recorded."""
        return derivative(lambda argument: self.value(argument, v), u)

    def bind(self, v: Maps) -> BoundKernel:
        """Return the kernel for one v, with everything that depends on v or the weights computed once."""
        return BoundKernel(self, v)

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse maps (without batch axis) that this kernel cannot take."""

    def curvature(self, feedback_norm: float) -> tuple[float, float] | None:
        """Return bounds on the eigenvalues of ∇²S in z where ‖W‖ ≤ ``feedback_norm``; None if unknown."""
        return None

    def certified_curvature(self, feedback_norm: float) -> tuple[float, float] | str:
        """Return :meth:`curvature`, or why there is none."""
        bounds = self.curvature(feedback_norm)
        if bounds is None:
            return "no bound is known for this kernel"
        return uncertified(self, "curvature", ("value", *CLOSED_FORMS)) or bounds


class BoundKernel:
    """S(·, v) for one input: all that a solve needs and that depends on the input or the weights only.

    Subclasses keep what they computed once.

    Args:
        kernel: The kernel.
        v: Ux + b.

    Attributes:
        W: The feedback operator with its effective weight; set by the problem that binds the kernel.
    """

    W: LinearMap

    def __init__(self, kernel: Kernel, v: Tensor) -> None:
        self.kernel, self.v = kernel, v

    def value(self, u: Tensor) -> Tensor:
        value = self.kernel.value(u, self.v)
        if value.shape != u.shape[:1]:
            raise InputError(
                f"{type(self.kernel).__name__}.value must give one number per sample, "
                f"shape ({u.shape[0]},): got {tuple(value.shape)}; sum over the other axes"
            )
        return value

    def grad(self, u: Tensor) -> Tensor:
        # The check of `value` is worth having only where `grad` goes through it.
        if type(self.kernel).grad is Kernel.grad:
            return derivative(self.value, u)
        return self.kernel.grad(u, self.v)

    def observe(self, u: Callable[[], Tensor]) -> None:
        """Update running statistics after a training solve; ``u`` computes the features at its end."""


def derivative(function: Callable[[Tensor], Tensor], u: Tensor) -> Tensor:
    """Return the gradient in u of a per-sample function, with its graph if the caller is recording one."""
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
        gradient: Tensor | None = None
        if total.requires_grad:
            (gradient,) = torch.autograd.grad(total, argument, create_graph=recording, allow_unused=True)
        if gradient is None:
            raise GradientError(
                "a gradient is derived from `value` (or `score`), so autograd must see how it depends on its "
                "first argument: got a result that does not depend on it; compute it with torch operations, "
                "without detach, no_grad, item or numpy, or give the gradient (`grad`) yourself, which is "
                "torch.zeros_like(u) where it is constant"
            )
    return gradient
