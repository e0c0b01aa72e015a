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

from geq.error import CheckedOptions, GradientError
from geq.solver.solution import Solution

Map = Callable[[Any], Any]
Record = Callable[[Solution], None]


@runtime_checkable
class Linearisation(Protocol):
    """T at z*, as the adjoint methods see it; a map may bring its own by ``linearise(z)``."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What T depends on besides z, with its graph."""

    @property
    def slope(self) -> Tensor | None:
        """The diagonal D where J = D·H with a symmetric H; None where that is not known."""

    @property
    def slope_is_mask(self) -> bool:
        """Whether every entry of D is 0 or 1, as for a projection."""

    def transposed_jacobian(self, u: Tensor) -> Tensor:
        """Jᵀu."""

    def hessian(self, w: Tensor) -> Tensor:
        """H·w; only asked for where there is a slope."""

    def pull_back(self, u: Tensor) -> tuple[Tensor, ...]:
        """∂T/∂inputᵀ·u for every input."""


class AutogradLinearisation:
    """T at z* with a graph of one evaluation, for any map; its one input is T itself.

    Where the map can be split into prox and attraction (see :class:`~geq.cell.ProximalMap`) the symmetric
    structure is used.
    """

    slope_is_mask = False

    def __init__(self, fn: Map, z: Tensor) -> None:
        with torch.enable_grad():
            self.z = z.detach().requires_grad_()
            split = getattr(fn, "split", None)
            self.attraction: Tensor | None = None
            self.slope: Tensor | None = None
            if split is None:
                self.image: Tensor = fn(self.z)
            else:
                self.attraction, self.image, self.slope = split(self.z)
        self.inputs = (self.image,)

    def pull_back(self, u: Tensor) -> tuple[Tensor, ...]:
        return (u,)

    def transposed_jacobian(self, u: Tensor) -> Tensor:
        """Jᵀu."""
        return self._product(self.image, u)

    def hessian(self, w: Tensor) -> Tensor:
        """∂s/∂z·w, the symmetric factor of J = D·∂s/∂z."""
        assert self.attraction is not None
        return self._product(self.attraction, w)

    def _product(self, output: Tensor, u: Tensor) -> Tensor:
        if not output.requires_grad:
            return torch.zeros_like(u)  # the map does not depend on the state at all
        (product,) = torch.autograd.grad(output, self.z, u, retain_graph=True, materialize_grads=True)
        return product


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
        ctx: Any, z: Tensor, at: Linearisation, adjoint: Callable[[Tensor], Tensor], *inputs: Tensor
    ) -> Tensor:
        ctx.at, ctx.adjoint = at, adjoint
        ctx.save_for_backward(*inputs)
        return z.view_as(z)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative()
        _ = ctx.saved_tensors  # torch's own error if a weight was changed in place since the solve
        # As in forward: autocast must not round the products of the adjoint system.
        with torch.autocast(grad.device.type, enabled=False):
            return None, None, None, *ctx.at.pull_back(ctx.adjoint(grad))


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

    def adjoint(self, at: Linearisation, grad: Tensor, record: Record | None) -> Tensor:
        """u, or an approximation, from g; ``record`` takes the statistics of an iterative method."""
        raise NotImplementedError

    def attach(self, fn: Map, z: Tensor, record: Record | None = None) -> Tensor:
        """z, connected to everything that ``fn`` depends on.

        Args:
            fn: the map; may have ``linearise`` and ``split`` (see :class:`~geq.cell.ProximalMap`).
            z: its fixed point.
            record: called in backward with the :class:`~geq.Solution` of the adjoint system.
        """
        linearise = getattr(fn, "linearise", None)
        at: Linearisation | None = None if linearise is None else linearise(z)
        if at is None:
            at = AutogradLinearisation(fn, z)
        if not any(tensor.requires_grad for tensor in at.inputs):
            return z
        return _Attach.apply(z, at, lambda grad: self.adjoint(at, grad, record), *at.inputs)
