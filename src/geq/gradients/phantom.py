"""Cheap approximate gradients: a few terms of the Neumann series of the adjoint."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from geq.cells.linearisation import Linearisation
from geq.errors import OptionError
from geq.gradients.base import Adjoint, Gradient, Record
from geq.solvers.base import check_range


@dataclass(frozen=True)
class Phantom(Gradient):
    """The gradient of ``steps`` damped iterations z ← (1 − damping)z + damping·T(z) started at z*.

    Backward sums damping·Σ_{i<steps}((1 − damping)I + damping·Jᵀ)ⁱ g by Horner's rule, with J taken at z*:
    equal to autograd through the iterations where z* is a fixed point (they do not move it), at the memory of
    one evaluation. Tends to the implicit gradient as ``steps`` grows, if the damped iteration contracts. The
    GEQ papers use 5 × 0.8.

    Args:
        steps: terms of the sum, at least 1.
        damping: in (0, 1].
    """

    steps: int = 5
    damping: float = 0.8

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise OptionError(f"Phantom: steps must be at least 1: got {self.steps}")
        check_range(self, "damping", self.damping, 0.0, 1.0)

    def adjoint(self, at: Linearisation, grad: Tensor, record: Record | None) -> Adjoint:
        # Every partial sum has the form share·g + extend(p), so only p is iterated.
        share = self.damping
        if self.steps == 1:
            return share * grad, None
        start = at.restrict(grad)
        p = at.core(share * start).mul_(self.damping)
        share += self.damping * (1 - share)
        for _ in range(self.steps - 2):
            q = torch.add(at.gram(p), start, alpha=share)
            p.lerp_(at.core(q), self.damping)
            share += self.damping * (1 - share)
        return torch.add(at.extend(p), grad, alpha=share), None


@dataclass(frozen=True)
class JacobianFree(Gradient):
    """u = g: the feedback through the state is ignored. The cheapest; a descent direction only for weak
    feedback.
    """

    def adjoint(self, at: Linearisation, grad: Tensor, record: Record | None) -> Adjoint:
        return grad.clone(), None
