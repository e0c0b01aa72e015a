"""Proximal gradient methods, for maps that come from an energy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geq.cells.base import Equation
from geq.errors import OptionError
from geq.solvers.base import Memory, Rows, Solver


@dataclass(frozen=True)
class _Descent(Solver[Memory]):
    """Minimises smooth(z) + f(z) by steps M_η(z) = prox_{ηf}(z − η ∇smooth(z)).

    The equation is asked for this step by ``equation.proximal(η)``, which iterates F with F(z) − z =
    (M_η(z) − z)/η. This is minus the generalised gradient: it has the scale of a gradient whatever η is, so
    that a small step does not pass for convergence, and z + η·(F(z) − z) is the proximal step.
    """

    step_size: float = 0.5

    def __post_init__(self) -> None:
        if not (math.isfinite(self.step_size) and self.step_size > 0):
            raise OptionError(
                f"{type(self).__name__}: step_size must be finite and above 0: got {self.step_size!r}"
            )

    def check_tolerance(self, tol: float, dtype: torch.dtype) -> None:
        # (M(z) − z)/η is known to a rounding of z divided by η: a step that is lost in z is no residual.
        least = 4 * torch.finfo(dtype).eps
        if self.step_size * tol < least:
            raise OptionError(
                f"{type(self).__name__}: step_size·tol must be at least {least:.1e} in {dtype}, or steps are "
                f"lost in rounding and pass for convergence: got {self.step_size:g}·{tol:g}; take a larger "
                "step, a larger tolerance, or double precision"
            )

    def prepare(self, equation: Equation) -> Equation:
        return equation.proximal(self.step_size)


@dataclass(frozen=True)
class ProximalGradient(_Descent[None]):
    """z ← prox_{ηf}(z − η ∇smooth(z)), η = ``step_size``.

    Descends for every η up to 1/L, where L is the Lipschitz constant of ∇smooth, and converges for η < 2/L if
    the energy is convex, also where the plain iteration of the layer's map (η = 1) does not.
    """

    def init(self, z: Rows) -> None:
        return None

    def step(self, z: Rows, fz: Rows, residual: Rows, memory: None) -> tuple[Rows, None]:
        return z.add(residual, alpha=self.step_size), None


@dataclass
class Momentum:
    """The last proximal point and the momentum parameter t of every sample."""

    point: Rows
    t: Float[Tensor, "batch 1"]


@dataclass(frozen=True)
class FISTA(_Descent[Momentum]):
    """Accelerated proximal gradient (Beck & Teboulle 2009) with adaptive restart (O'Donoghue & Candès 2015).

        x_k = M_η(z_k),  t_{k+1} = (1 + √(1 + 4 t_k²))/2,  z_{k+1} = x_k + (t_k − 1)/t_{k+1} · (x_k − x_{k−1})

    On a convex energy of condition number κ it needs of the order of √κ steps where the plain method needs κ.
    A sample drops its momentum when that points uphill, ⟨F(z_k) − z_k, x_k − x_{k−1}⟩ < 0, which recovers the
    linear rate without knowing κ. The solution is the extrapolated point z_k, where the residual is taken.

    Args:
        step_size: η, at most 1/L for the Lipschitz constant L of the smooth part's gradient.
        restart: Whether to restart; without it the method oscillates on strongly convex energies.
    """

    restart: bool = True

    def init(self, z: Rows) -> Momentum:
        return Momentum(z, torch.ones_like(z[:, :1]))

    def step(self, z: Rows, fz: Rows, residual: Rows, memory: Momentum) -> tuple[Rows, Momentum]:
        point = z.add(residual, alpha=self.step_size)
        direction = point - memory.point
        t = memory.t
        if self.restart:
            uphill = (residual * direction).sum(1, keepdim=True) < 0
            t = torch.where(uphill, 1, t)
        following = (1 + (1 + 4 * t**2).sqrt()) / 2
        return torch.addcmul(point, (t - 1) / following, direction), Momentum(point, following)
