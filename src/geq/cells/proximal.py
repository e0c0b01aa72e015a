"""Cells of hidden problems: T(z; c) = prox_f(∇S(z; c)), with ∇S in closed form or derived from the energy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geq.cells.base import Cell, StationaryMap
from geq.cells.closed_form import ClosedLinearisation, FeatureMap, has_closed_derivatives
from geq.cells.energy import EnergyProblem
from geq.certificate import WellPosedness, uncertified
from geq.errors import OptionError
from geq.kernels.base import derivative
from geq.operators.operator import Size


class ProximalCell(Cell):
    """The stationary map of a hidden problem; subclasses say how ∇S is computed."""

    def __init__(self, problem: EnergyProblem) -> None:
        super().__init__()
        self.problem = problem

    def inject(self, x: Any) -> Any:
        return self.problem.inject(x)

    def initial_state(self, c: Any) -> Tensor:
        return self.problem.initial_state(c)

    def settled(self, z: Any, c: Any) -> None:
        self.problem.settled(z, c)

    @abstractmethod
    def attraction(self, z: Float[Tensor, "batch *state"], c: Any) -> Float[Tensor, "batch *state"]:
        """∇S(z; c)."""

    def forward(self, z: Float[Tensor, "batch *state"], c: Any) -> Float[Tensor, "batch *state"]:
        return self.problem.penalty.prox(self.attraction(z, c))

    def at(self, c: Any) -> ProximalMap:
        return ProximalMap(self, c)

    def well_posedness(self, size: Size | None = None) -> WellPosedness:
        reason = uncertified(self, "well_posedness", ("inject", "attraction", "forward", "at"))
        return WellPosedness(reason=reason) if reason else self.problem.well_posedness(size)


class ClosedFormCell(ProximalCell):
    """∇S as the similarity gives it: the fast cell, and the one that :class:`~geq.Equilibrium` uses."""

    def attraction(self, z: Float[Tensor, "batch *state"], c: Any) -> Float[Tensor, "batch *state"]:
        return self.problem.attraction(z, c)


class DerivedCell(ProximalCell):
    """∇S by autograd of the score S: write the energy, get the layer.

    Every closed form is tested against it.
    """

    def attraction(self, z: Float[Tensor, "batch *state"], c: Any) -> Float[Tensor, "batch *state"]:
        return derivative(lambda state: self.problem.score(state, c), z)


class ProximalMap(StationaryMap):
    """The map of a proximal cell, which knows more than its value: it comes from an energy."""

    cell: ProximalCell

    def __init__(self, cell: ProximalCell, context: Any) -> None:
        super().__init__(cell, context)
        self._features: FeatureMap | None = None

    def with_step(self, step: float) -> Callable[[Tensor], Tensor]:
        """F with F(z) − z the generalised gradient mapping of a proximal step of this size.

        M(z) = prox_{step·f}(z − step·(z − ∇S)) has the same fixed points as T, and (M(z) − z)/step measures
        how far z is from stationary independently of the step. For step 1 F is T.
        """
        if not step > 0:
            raise OptionError(f"the step must be positive: got {step}")
        penalty = self.cell.problem.penalty

        def mapping(z: Tensor) -> Tensor:
            moved = penalty.prox(z + step * (self.cell.attraction(z, self.context) - z), step)
            return z + (moved - z) / step

        return mapping

    def features(self) -> FeatureMap | None:
        """The equivalent, smaller equation in u = Wz, where there is one."""
        if self._features is None and isinstance(self.cell, ClosedFormCell):
            self._features = FeatureMap.of(self.cell.problem, self.context)
        return self._features

    def linearise(self, z: Tensor) -> ClosedLinearisation | None:
        """The derivatives at z in closed form, where they are known."""
        problem = self.cell.problem
        if not isinstance(self.cell, ClosedFormCell) or not has_closed_derivatives(problem, self.context):
            return None
        known = None if self._features is None else self._features.known(z)
        with torch.no_grad():
            features = self.context.W(z) if known is None else known
        return ClosedLinearisation(problem, self.context, z, features)

    def split(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``(s, T, D)`` at z, for derivatives by autograd.

        s = ∇S(z) and T = prox(s), both with graph, and the diagonal D = prox'(s) of T's Jacobian D·∂s/∂z.
        ∂s/∂z is the Hessian of S, hence symmetric: what lets conjugate gradients solve the adjoint system.
        """
        s = self.cell.attraction(z, self.context)
        penalty = self.cell.problem.penalty
        return s, penalty.prox(s), penalty.slope(s.detach())
