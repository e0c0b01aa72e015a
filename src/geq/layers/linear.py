"""Drop-in layers on vectors: where an ``nn.Linear`` stands, an equilibrium can."""

from __future__ import annotations

from typing import Any

from geq.bandwidth import GammaRule
from geq.cells import EnergyProblem
from geq.constraints import Constraint
from geq.equilibrium import Equilibrium
from geq.gradients import Gradient, Implicit
from geq.kernels import GaussianKernel, Kernel
from geq.layers.equilibrium2d import GAUSSIAN_GRADIENT, check_channels, inner_product_kernel
from geq.layers.injection import Injection
from geq.operators import Dense
from geq.solvers import Solver


class GEQLinear(Equilibrium):
    """The Gaussian equilibrium on vectors: z = σ(e^{−γ‖r‖²}Wᵀr), r = Ux + b − Wz (GEQ eq. 5–6).

    Args:
        in_features, out_features: of the input and of the state z.
        mid_features: of Ux and Wz; default half of ``out_features``.
        gamma: a number or a rule; default learned. A fixed γ should be of the order 1/‖Ux + b‖².
        constraint: constraint on W; default ‖W‖ ≤ 0.95.
        normalise_input: batch norm (without learned parameters) on Ux; needs batches of more than one.
        solver, gradient, tol, max_steps, on_failure: as of :class:`~geq.Equilibrium`.

    >>> import torch
    >>> GEQLinear(10, 16)(torch.randn(2, 10)).shape
    torch.Size([2, 16])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        mid_features: int | None = None,
        gamma: float | int | GammaRule | None = None,
        constraint: Constraint | None = None,
        normalise_input: bool = False,
        solver: Solver[Any] | None = None,
        gradient: Gradient | None = None,
        tol: float = 1e-3,
        max_steps: int = 50,
        on_failure: str | None = None,
    ) -> None:
        mid_features = max(1, out_features // 2) if mid_features is None else mid_features
        check_channels(in_features, out_features, mid_features)
        U = Injection(Dense(in_features, mid_features, bias=not normalise_input), normalise_input)
        W = Dense(out_features, mid_features, constraint=constraint)
        super().__init__(
            EnergyProblem(GaussianKernel(gamma), W, U),
            solver,
            gradient or GAUSSIAN_GRADIENT,
            tol,
            max_steps,
            on_failure,
        )


class OptEqLinear(Equilibrium):
    """The equilibrium of OptEq on vectors: z = σ(WᵀWz + Ux + b) (GEQ eq. 3–4).

    Args:
        in_features, out_features: of the input and of the state z.
        mid_features: of Wz; default half of ``out_features``.
        kernel: an inner-product kernel; default :class:`~geq.kernels.LinearKernel`.
        constraint: constraint on W; default ‖W‖ ≤ 0.95.
        normalise_input: batch norm (without learned parameters) on Ux; needs batches of more than one.
        solver, gradient, tol, max_steps, on_failure: as of :class:`~geq.Equilibrium`.

    >>> import torch
    >>> OptEqLinear(10, 16)(torch.randn(2, 10)).shape
    torch.Size([2, 16])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        mid_features: int | None = None,
        kernel: Kernel | None = None,
        constraint: Constraint | None = None,
        normalise_input: bool = False,
        solver: Solver[Any] | None = None,
        gradient: Gradient | None = None,
        tol: float = 1e-3,
        max_steps: int = 50,
        on_failure: str | None = None,
    ) -> None:
        kernel = inner_product_kernel(kernel)
        mid_features = max(1, out_features // 2) if mid_features is None else mid_features
        check_channels(in_features, out_features, mid_features)
        U = Injection(Dense(in_features, out_features, bias=not normalise_input), normalise_input)
        W = Dense(out_features, mid_features, constraint=constraint)
        super().__init__(
            EnergyProblem(kernel, W, U), solver, gradient or Implicit(tol=1e-3), tol, max_steps, on_failure
        )
