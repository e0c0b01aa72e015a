"""How the solver of an equilibrium finds it, for one input: residuals, energies and the way itself.

Point k of a way is the image T(z_k) that evaluation k gave: it satisfies the constraints, which an
extrapolated z_k need not. Two things are known of the plain iteration z ← T(z):

* if T contracts with factor L, ‖z − T(z)‖ falls at least by L with each evaluation;
* the energy falls with each evaluation if ∇²S ⪰ lower > −1. The iteration is a proximal gradient step of
  size 1 on ½‖z‖² − S, whose curvature is at most 1 − lower, and a step η on a curvature of at most Λ takes
  (1/η − Λ/2)‖T(z) − z‖² off the objective.

Anderson's method is usually faster than the first and promises neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geq.analysis.certificate import contraction_rate
from geq.analysis.subject import solved_tightly
from geq.cells import FeatureMap, ProximalCell, ProximalMap, StationaryMap
from geq.certificate import WellPosedness
from geq.equilibrium import Equilibrium
from geq.errors import InputError
from geq.gradients import Unrolled
from geq.solvers import FISTA, Picard, ProximalGradient, fixed_point
from geq.solvers.state import State, parts_of

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
    residual: Float[Tensor, "evaluations"]
    energy: Float[Tensor, "evaluations"] | None


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

    equilibrium: Float[Tensor, "size"]
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

    def promised(self) -> Float[Tensor, "evaluations"] | None:
        """Upper bound of the residuals of the plain iteration."""
        if self.rate is None:
            return None
        return self.plain.residual[0] * self.rate ** torch.arange(len(self.plain.residual)).to(
            self.plain.residual
        )


@torch.no_grad()
def trace(layer: Equilibrium, x: Any, certificate: WellPosedness) -> Trace:
    """Follow a layer in evaluation mode, preferably in double precision, on one input."""
    fn = layer.cell.at(layer.cell.inject(x))
    start = fn.start(None)
    rows = flat(start)
    if len(rows) != 1:
        raise InputError(f"a way is followed for one input at a time: got {len(rows)}")
    exact = solved_tightly(layer, tol=max(1e-10, 10 * torch.finfo(rows.dtype).eps)).solve(x).value
    found = fn(exact)
    energies = isinstance(layer.cell, ProximalCell)
    return Trace(
        flat(found)[0],
        float(layer.problem.energy(as_tensor(found), fn.context)) if energies else None,
        measured(layer, fn, own_points(layer, x)),
        measured(layer, fn, plain_points(layer, fn)),
        contraction_rate(layer.cell, certificate),
        energies and certificate.lower is not None and certificate.lower > -1,
        layer.tol,
        tuple(tuple(part.shape[1:]) for part in parts_of(start)),
    )


@torch.no_grad()
def own_way(layer: Equilibrium, x: Any) -> Way:
    """The way of the layer's own solver."""
    return measured(layer, layer.cell.at(layer.cell.inject(x)), own_points(layer, x))


def own_points(layer: Equilibrium, x: Any) -> list[State]:
    """The images that the layer's own solve passes, in order."""
    fn = layer.cell.at(layer.cell.inject(x))
    if isinstance(layer.gradient, Unrolled):
        return unrolled_points(layer.gradient, fn)
    features = layer.feature_map(fn)
    recorded = Recorder(fn, features, isinstance(layer.solver, (ProximalGradient, FISTA)))
    fixed_point(
        recorded,
        fn.start(None) if features is None else features.start(None),
        layer.solver,
        tol=layer.tolerance(features),
        max_steps=layer.max_steps,
        on_failure="ignore",
    )
    return recorded.points


def unrolled_points(gradient: Unrolled, fn: StationaryMap) -> list[State]:
    z, points = fn.start(None), []
    for count in range(1, gradient.steps + 1):
        z = gradient.advance(fn, z, count)
        points.append(z)
    return points


def plain_points(layer: Equilibrium, fn: StationaryMap) -> list[State]:
    recorded = Recorder(fn, None, False)
    fixed_point(recorded, fn.start(None), Picard(), tol=layer.tol, max_steps=PLAIN_STEPS, on_failure="ignore")
    return recorded.points


def flat(state: State) -> Float[Tensor, "b size"]:
    """One row per input, in the order of the axes whatever the order in memory is."""
    return torch.cat([part.flatten(1) for part in parts_of(state)], 1)


def as_tensor(state: State) -> Tensor:
    """The state of a hidden problem, which is always one tensor."""
    assert isinstance(state, Tensor)
    return state


class Recorder:
    """The map of a solve, remembering the image of every state that it is asked for."""

    def __init__(self, fn: StationaryMap, features: FeatureMap | None, descent: bool) -> None:
        self.fn, self.features = fn, features
        self.points: list[State] = []
        if descent:
            # Only solvers that look for it may find it: a plain map has no proximal step.
            self.with_step = self._with_step

    def __call__(self, z: State) -> State:
        if self.features is not None:
            features = self.features(as_tensor(z))
            self.points.append(self.features.state(as_tensor(z)))
            return features
        image = self.fn(z)
        self.points.append(image)
        return image

    def _with_step(self, step: float) -> Callable[[Tensor], Tensor]:
        assert isinstance(self.fn, ProximalMap)
        mapping = self.fn.with_step(step)

        def recorded(z: Tensor) -> Tensor:
            self.points.append(self.fn(z))
            return mapping(z)

        return recorded


def measured(layer: Equilibrium, fn: StationaryMap, points: list[State]) -> Way:
    """Residual and energy at each point."""
    rows = torch.cat([flat(point) for point in points])
    images = torch.cat([flat(fn(point)) for point in points])
    energy = None
    if isinstance(layer.cell, ProximalCell):
        energy = torch.cat([layer.problem.energy(as_tensor(point), fn.context) for point in points])
    return Way(rows, (images - rows).norm(dim=1), energy)
