"""Gradients: they run a solve and connect its solution to the autograd graph.

At a fixed point z* = T(z*; θ) the derivative of a loss is ∂T/∂θᵀu with the *adjoint* u = (I − Jᵀ)⁻¹g, g =
dL/dz*, J = ∂T/∂z. Most gradients differ only in how they find or approximate u, so they share one autograd
function: in backward it finds u and hands it on to what T depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import TransformType
from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters
from torch.autograd import forward_ad

from geq.cells.base import Equation, State
from geq.cells.linearisation import AutogradLinearisation, Linearisation
from geq.errors import CheckedOptions, GradientError
from geq.solvers.base import Solution
from geq.solvers.fixed_point import Packing

Find = Callable[[Equation], Solution]
Record = Callable[[Solution], None]
Adjoint = tuple[Tensor, Tensor | None]


def refuse_second_derivative(grad: Tensor | None = None) -> None:
    """Refuse a backward pass that is recorded, which asks for a derivative of the gradient.

    torch's ``once_differentiable`` would refuse later, and without the way out.
    """
    if torch.is_grad_enabled():
        raise GradientError(
            "this gradient cannot be differentiated again (create_graph=True would be silently wrong); "
            "use gradient=Unrolled(steps), which can"
        )


def refuse_transforms(gradient: Gradient) -> None:
    """Refuse the transforms of ``torch.func``, except those that can differentiate through iterations.

    torch would fail in them with an error about storage, or about control flow that depends on data; and
    forward mode would return no tangent for a cell without parameters, without a word.
    """
    transforms = {level.key() for level in retrieve_all_functorch_interpreters()}
    if TransformType.Vmap in transforms:
        raise GradientError(
            "torch.func.vmap, which jacfwd and hessian use, cannot follow a solve, which stops each sample "
            "by itself: a layer takes a whole batch anyway; for gradients of single samples call "
            "torch.autograd.grad in a loop over them, for a Jacobian torch.autograd.functional.jacobian"
        )
    forward_mode = forward_ad._current_level >= 0
    differentiates = forward_mode or transforms & {TransformType.Grad, TransformType.Jvp}
    if gradient.iterations is None and differentiates:
        raise GradientError(
            f"{type(gradient).__name__} cannot be used in torch.func.grad, vjp, jacrev, jacfwd or jvp, nor "
            "in forward mode: use torch.autograd.grad or torch.autograd.functional.jacobian, or "
            "gradient=geq.gradients.Unrolled(steps)"
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


@dataclass(frozen=True)
class Gradient(metaclass=CheckedOptions):
    """Base class. Subclasses give :meth:`adjoint`, or :meth:`run` where they iterate by themselves."""

    @property
    def iterations(self) -> int | None:
        """The iterations that make up the layer; None where it is the fixed point that its solver finds."""
        return None

    def run(self, equation: Equation, find: Find, tol: float, record: Record | None = None) -> Solution:
        """Solve an equation; where gradients are recorded, the value is connected to all it depends on.

        Args:
            equation: The equation of one input.
            find: Solves an equation with the solver of the layer.
            tol: Relative tolerance of the layer.
            record: Called in backward with the :class:`~geq.Solution` of the adjoint system.
        """
        with torch.no_grad():
            solution = find(equation)
        if not torch.is_grad_enabled():
            return solution
        return replace(solution, value=self.attach(equation, solution.value, record))

    def attach(self, equation: Equation, z: State, record: Record | None = None) -> State:
        """Return the fixed point z, connected to everything that the equation depends on."""
        if isinstance(z, Tensor) and not equation.couples_samples:
            return self._attach(equation.linearise(z), z, record)
        packing = Packing.of(z, equation.couples_samples)
        rows = packing.pack(z)
        at = AutogradLinearisation(lambda rows: packing.pack(equation(packing.unpack(rows))), rows)
        return packing.unpack(self._attach(at, rows, record))

    def _attach(self, at: Linearisation, z: Tensor, record: Record | None) -> Tensor:
        if not any(tensor.requires_grad for tensor in at.inputs):
            return z
        return _Attach.apply([z], at, lambda grad: self.adjoint(at, grad, record), *at.inputs)

    def adjoint(self, at: Linearisation, grad: Tensor, record: Record | None) -> Adjoint:
        """Return u, or an approximation, as a new tensor, and ``at.restrict(u)`` where that is known.

        Args:
            at: The equation at its solution.
            grad: g.
            record: Takes the statistics of an iterative method.
        """
        raise GradientError(f"{type(self).__name__} has no adjoint: it iterates by itself")
