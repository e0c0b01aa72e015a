"""Trace of a solve for one input: residuals, energies and trajectory.

Point k of a way is the image T(z_k) that evaluation k gave: it satisfies the constraints, which an
extrapolated z_k need not. Two things are known of the plain iteration z ← T(z):

* if T contracts with factor L, ‖z − T(z)‖ falls at least by L with each evaluation;
* the energy falls with each evaluation if ∇²S ⪰ lower > −1. The iteration is a proximal gradient step of
  size 1 on ½‖z‖² − S, whose curvature is at most 1 − lower, and a step η on a curvature of at most Λ takes
  (1/η − Λ/2)‖T(z) − z‖² off the objective.

Anderson's method is usually faster than the first and promises neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geq.analysis.analysed_network import solved_tightly
from geq.cells import CellEquation, EnergyProblem, Equation
from geq.cells.base import State, parts_of
from geq.certificates.well_posedness import WellPosedness
from geq.equilibrium import Equilibrium
from geq.errors import InputError
from geq.gradients.unrolled import Iterated
from geq.solvers import Picard, Solution, Solver, fixed_point
from geq.solvers.recorder import Recorder

PLAIN_STEPS = 60


@dataclass(frozen=True)
class Way:
    """
    Args:
        points: one row per evaluation, the state flattened.
        residual: ‖p − T(p)‖ at each point.
        energy: G at each point; None without a hidden problem.
    """

    points: Float[Tensor, "evaluations size"]
    residual: Float[Tensor, " evaluations"]
    energy: Float[Tensor, " evaluations"] | None


@dataclass(frozen=True)
class Trace:
    """An equilibrium, the solver's way to it and that of the plain iteration.

    Args:
        equilibrium: z*, flattened, found to the precision of the numbers.
        energy: G(z*); None without a hidden problem.
        own: the way of the layer's solver, until its tolerance.
        plain: that of z ← T(z), for at most ``PLAIN_STEPS`` evaluations.
        rate: factor by which the weights promise that plain residuals fall; None where they promise none.
        descends: whether they promise that the plain iteration lowers the energy.
        tolerance: relative residual at which the layer stops.
        shapes: of the parts of the state, without the batch, in the order in which they are flattened.
    """

    equilibrium: Float[Tensor, " size"]
    energy: float | None
    own: Way
    plain: Way
    rate: float | None
    descends: bool
    tolerance: float
    shapes: tuple[tuple[int, ...], ...]

    @property
    def norm(self) -> float:
        """‖z*‖; 1 for z* = 0, so that one can divide by it."""
        return float(self.equilibrium.norm()) or 1.0

    def promised(self) -> Float[Tensor, " evaluations"] | None:
        """Upper bound of the residuals of the plain iteration."""
        if self.rate is None:
            return None
        return self.plain.residual[0] * self.rate ** torch.arange(len(self.plain.residual)).to(
            self.plain.residual
        )


@torch.no_grad()
def trace(layer: Equilibrium, x: Any, certificate: WellPosedness) -> Trace:
    """Follow a layer in evaluation mode, preferably in double precision, on one input."""
    equation = layer.cell.equation(x)
    start = equation.start()
    rows = flat(start)
    if len(rows) != 1:
        raise InputError(f"a way is followed for one input at a time: got {len(rows)}")
    exact = solved_tightly(layer, tol=max(1e-10, 10 * torch.finfo(rows.dtype).eps)).solve(x).value
    found = equation(exact)
    energies = isinstance(layer.cell, EnergyProblem)
    return Trace(
        flat(found)[0],
        float(layer.problem.energy(as_tensor(found), equation.context)) if energies else None,
        measured(layer, equation, own_points(layer, x)),
        measured(layer, equation, plain_points(layer, equation)),
        layer.cell.contraction_rate(certificate),
        energies and certificate.lower is not None and certificate.lower > -1,
        layer.tol,
        tuple(tuple(part.shape[1:]) for part in parts_of(start)),
    )


@torch.no_grad()
def own_way(layer: Equilibrium, x: Any) -> Way:
    """The way of the layer's own solver."""
    return measured(layer, layer.cell.equation(x), own_points(layer, x))


def own_points(layer: Equilibrium, x: Any) -> list[State]:
    """Return the images that the layer's own solve passes, in order."""
    points: list[State] = []

    def find(equation: Equation) -> Solution:
        recorded = Recorder(layer.solver.prepare(equation), points)
        return solve(recorded, layer.solver, layer.tol, layer.max_steps)

    equation = layer.cell.equation(x)
    if isinstance(layer.gradient, Iterated):
        return list(layer.gradient.trajectory(equation, equation.start()))
    find(equation)
    return points


def plain_points(layer: Equilibrium, equation: Equation) -> list[State]:
    points: list[State] = []
    solve(Recorder(equation, points), Picard(), layer.tol, PLAIN_STEPS)
    return points


def solve(recorded: Recorder, solver: Solver[Any], tol: float, max_steps: int) -> Solution:
    return fixed_point(recorded, None, solver, tol=tol, max_steps=max_steps, on_failure="ignore")


def flat(state: State) -> Float[Tensor, "b size"]:
    """One row per input, in the order of the axes for any order in memory."""
    return torch.cat([part.flatten(1) for part in parts_of(state)], 1)


def as_tensor(state: State) -> Tensor:
    """The state of a hidden problem, which is always one tensor."""
    assert isinstance(state, Tensor)
    return state


def measured(layer: Equilibrium, equation: CellEquation, points: list[State]) -> Way:
    """Residual and energy at each point."""
    rows = torch.cat([flat(point) for point in points])
    images = torch.cat([flat(equation(point)) for point in points])
    energy = None
    if isinstance(layer.cell, EnergyProblem):
        energy = torch.cat([layer.problem.energy(as_tensor(point), equation.context) for point in points])
    return Way(rows, (images - rows).norm(dim=1), energy)
