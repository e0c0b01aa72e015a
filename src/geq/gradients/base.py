"""How the output of a solve is connected to the autograd graph.

At a fixed point z* = T(z*; θ) the derivative of a loss is ∂T/∂θᵀu with the *adjoint* u = (I − Jᵀ)⁻¹g, g =
dL/dz*, J = ∂T/∂z. The gradients of this package differ only in how they find or approximate u, so they share
one autograd function: in backward it finds u and hands it on to what T depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from geq.errors import CheckedOptions, GradientError
from geq.solvers.solution import Solution

Map = Callable[[Any], Any]
Record = Callable[[Solution], None]
Adjoint = tuple[Tensor, Tensor | None]


@runtime_checkable
class Linearisation(Protocol):
    """T at z*, as the adjoint methods see it; a map may bring its own by ``linearise(z)``.

    The transposed Jacobian comes in three factors, Jᵀ = ``extend``·``core``·``restrict``, so that u = g + Jᵀu
    can be solved in the space in the middle, which may be smaller: q = restrict(u) obeys
    q = restrict(g) + gram(core(q)), gram = restrict·extend, and u = g + extend(core(q)). Where nothing is
    known of J the middle space is that of the states, and the outer factors are the identity.
    """

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What T depends on besides z, with its graph."""

    @property
    def symmetric(self) -> bool:
        """Whether ``core`` is symmetric and ``gram`` symmetric and positive semidefinite."""

    @property
    def gram_norm(self) -> float:
        """A bound on the norm of ``gram``; infinite where none is known."""

    def restrict(self, u: Tensor) -> Tensor:
        """From the states to the space in the middle."""

    def core(self, q: Tensor) -> Tensor:
        """Within the space in the middle."""

    def extend(self, p: Tensor) -> Tensor:
        """From the space in the middle to the states."""

    def gram(self, p: Tensor) -> Tensor:
        """restrict(extend(p))."""

    def right_hand_side(self, g: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        """restrict(g/size) as a new tensor, and ‖D·g/size‖² of every sample; D is what T reacts to."""

    def pull_back(self, u: Tensor, restricted: Tensor | None) -> tuple[Tensor, ...]:
        """∂T/∂inputᵀ·u for every input; takes over the memory of u. ``restricted``: restrict(u), if known."""


class AutogradLinearisation:
    """T at z* with a graph of one evaluation, for any map; its one input is T itself.

    Where the map can be split into prox and attraction (see :class:`~geq.cells.ProximalMap`), J = D·∂s/∂z with
    a diagonal 0 ≤ D ≤ 1 and a symmetric ∂s/∂z: ``restrict`` is D and ``core`` is ∂s/∂z. Elsewhere ``core`` is
    Jᵀ.
    """

    gram_norm = 1.0

    def __init__(self, fn: Map, z: Tensor) -> None:
        with torch.enable_grad():
            self.z = z.detach().requires_grad_()
            split = getattr(fn, "split", None)
            self.slope: Tensor | None = None
            if split is None:
                self.differentiated: Tensor = fn(self.z)
                self.inputs: tuple[Tensor, ...] = (self.differentiated,)
            else:
                self.differentiated, image, self.slope = split(self.z)
                self.inputs = (image,)
        self.symmetric = split is not None
        if not depends_on_more(self.inputs[0], self.z):
            self.inputs = ()

    def restrict(self, u: Tensor) -> Tensor:
        return u if self.slope is None else self.slope * u

    def core(self, q: Tensor) -> Tensor:
        if not self.differentiated.requires_grad:
            return torch.zeros_like(q)  # the map does not depend on the state at all
        (product,) = torch.autograd.grad(
            self.differentiated, self.z, q, retain_graph=True, materialize_grads=True
        )
        # The derivative of an identity hands on q itself.
        return product.clone() if product.data_ptr() == q.data_ptr() else product

    def extend(self, p: Tensor) -> Tensor:
        return p

    def gram(self, p: Tensor) -> Tensor:
        return self.restrict(p)

    def right_hand_side(self, g: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        masked = self.restrict(g) / size
        return masked, masked.flatten(1).square().sum(1)

    def pull_back(self, u: Tensor, restricted: Tensor | None) -> tuple[Tensor, ...]:
        return (u,)


def depends_on_more(image: Tensor, z: Tensor) -> bool:
    """Whether a graph leads to anything that requires grad besides ``z``."""
    seen, left = set(), [image.grad_fn]
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and leaf is not z:
            return True
        left.extend(function for function, _ in node.next_functions)
    return False


def refuse_second_derivative() -> None:
    """Called in backward: whoever records it asks for a derivative of the gradient."""
    if torch.is_grad_enabled():
        raise GradientError(
            "this gradient cannot be differentiated again (create_graph=True would be silently wrong); "
            "use gradient=Unrolled(steps), which can"
        )


class _Attach(torch.autograd.Function):
    """Value z*, gradient by the adjoint."""

    @staticmethod
    def forward(
        ctx: Any, z: list[Tensor], at: Linearisation, adjoint: Callable[[Tensor], Adjoint], *inputs: Tensor
    ) -> Tensor:
        ctx.at, ctx.adjoint = at, adjoint
        ctx.save_for_backward(*inputs)
        # Taken out of a list, z is no argument: a returned argument would be a view, not to be changed.
        return z.pop().detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        _ = ctx.saved_tensors  # torch's own error if a weight was changed in place since the solve
        # As in forward: autocast must not round the products of the adjoint system.
        with torch.autocast(grad.device.type, enabled=False):
            return None, None, None, *ctx.at.pull_back(*ctx.adjoint(grad))


class Once(torch.autograd.Function):
    """The identity, for a value whose first derivative is right and whose second would not be."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        refuse_second_derivative()
        return grad


@dataclass(frozen=True)
class Gradient(metaclass=CheckedOptions):
    """Base class. Subclasses that follow the scheme above give :meth:`adjoint`."""

    def adjoint(self, at: Linearisation, grad: Tensor, record: Record | None) -> Adjoint:
        """u from g, or an approximation, as a new tensor, and ``at.restrict(u)`` where that is known;
        ``record`` takes the statistics of an iterative method.
        """
        raise NotImplementedError

    def attach(self, fn: Map, z: Tensor, record: Record | None = None) -> Tensor:
        """z, connected to everything that ``fn`` depends on.

        Args:
            fn: the map; may have ``linearise`` and ``split`` (see :class:`~geq.cells.ProximalMap`).
            z: its fixed point.
            record: called in backward with the :class:`~geq.Solution` of the adjoint system.
        """
        linearise = getattr(fn, "linearise", None)
        at: Linearisation | None = None if linearise is None else linearise(z)
        if at is None:
            at = AutogradLinearisation(fn, z)
        if not any(tensor.requires_grad for tensor in at.inputs):
            return z
        return _Attach.apply([z], at, lambda grad: self.adjoint(at, grad, record), *at.inputs)
