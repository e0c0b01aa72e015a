"""The hidden objective around an equilibrium, on a plane through it.

The plane is spanned by the two directions that hold most of the solver's way (the principal components of its
points, seen from z*). Nearly every direction leaves the constraints at once, since most entries of z* are 0;
a point of the plane stands for the nearest feasible one, its projection, so that the picture is finite and
its lowest point is z*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geq.cells import EnergyProblem
from geq.equilibrium import Equilibrium

CHUNK = 2**24
"""Numbers in one batch of states of the plane: 128 MB in double precision."""
FINE, COARSE, LARGE = 65, 25, 2**15
"""Sides of the grid, and the numbers in a state from which the coarse one is used, to save time."""
NEGLIGIBLE = 1e-6
"""A direction counts if the way extends this much along it, relative to the first one."""


@dataclass(frozen=True)
class Plane:
    """
    Args:
        origin: z*, flattened.
        directions: two orthonormal rows.
        principal: how many of them come from the way; the others are random.
        captured: share of the way's squared distances from z* that lies in the plane.
    """

    origin: Float[Tensor, " size"]
    directions: Float[Tensor, "2 size"]
    principal: int
    captured: float

    def coordinates(self, points: Float[Tensor, "n size"]) -> Float[Tensor, "n 2"]:
        """Return the coordinates of points projected on the plane."""
        return (points - self.origin) @ self.directions.t()


def plane_of(origin: Float[Tensor, " size"], points: Float[Tensor, "n size"], seed: int = 0) -> Plane:
    """The plane through ``origin`` that holds most of ``points``; random directions replace missing ones."""
    if len(origin) < 2:
        raise ValueError("a plane needs states of at least two numbers")
    offsets = points - origin
    left, sizes, right = torch.linalg.svd(offsets, full_matrices=False)
    floor = NEGLIGIBLE * max(float(sizes[0]), float(origin.norm()), torch.finfo(origin.dtype).tiny)
    principal = min(2, int((sizes > floor).sum()))
    # Signs are arbitrary: the first point is put on the positive side of each axis.
    signs = torch.where(left[0, :principal] < 0, -1.0, 1.0).to(origin)
    directions = list((right[:principal] * signs[:, None]).unbind())
    generator = torch.Generator().manual_seed(seed)
    while len(directions) < 2:
        drawn = torch.randn(len(origin), generator=generator, dtype=torch.float64).to(origin)
        for _ in range(2):  # twice, because one pass leaves what rounding lost
            for other in directions:
                drawn = drawn - (drawn @ other) * other
        directions.append(drawn / drawn.norm())
    total = float(sizes.square().sum())
    held = float(sizes[:principal].square().sum())
    return Plane(origin, torch.stack(directions), principal, held / total if total > 0 else 1.0)


@dataclass(frozen=True)
class Landscape:
    """
    Args:
        plane: through z*.
        across, along: coordinates of the columns and of the rows.
        energy: G above its value at z*.
    """

    plane: Plane
    across: Float[Tensor, " columns"]
    along: Float[Tensor, " rows"]
    energy: Float[Tensor, "rows columns"]


def extent(plane: Plane, points: Float[Tensor, "n size"], margin: float = 0.25) -> list[tuple[float, float]]:
    """For each axis, from where to where the picture goes: all points and z*, with a margin."""
    where = torch.cat([plane.coordinates(points), torch.zeros(1, 2).to(points)])
    low, high = where.amin(0), where.amax(0)
    # A direction that the way does not use is shown as far as the others go.
    reach = float((high - low).max()) or 0.1 * float(plane.origin.norm()) or 1.0
    result = []
    for axis in range(2):
        first, last = float(low[axis]), float(high[axis])
        if axis >= plane.principal or last - first < NEGLIGIBLE * reach:
            result.append((-reach / 2, reach / 2))
        else:
            result.append((first - margin * (last - first), last + margin * (last - first)))
    return result


@torch.no_grad()
def landscape(
    layer: Equilibrium,
    x: Any,
    plane: Plane,
    points: Float[Tensor, "n size"],
    resolution: int | None = None,
) -> Landscape:
    """The objective on a grid that covers ``points``; ``x`` is one input.

    ``resolution`` is the side of the grid: by default ``FINE``, and ``COARSE`` for large states.
    """
    if resolution is None:
        resolution = FINE if plane.origin.numel() <= LARGE else COARSE
    (left, right), (bottom, top) = extent(plane, points)
    across = torch.linspace(left, right, resolution).to(plane.origin)
    along = torch.linspace(bottom, top, resolution).to(plane.origin)
    grid = torch.cartesian_prod(along, across)
    chunk = max(1, min(len(grid), CHUNK // plane.origin.numel()))
    problem = layer.problem
    context = problem.inject(x.expand(chunk, *x.shape[1:]).contiguous())
    shape = problem.initial_state(context).shape
    lowest = _energy(problem, context, plane.origin.expand(chunk, -1).reshape(shape))[0]
    values = []
    for start in range(0, len(grid), chunk):
        where = grid[start : start + chunk]
        padded = torch.cat([where, where[:1].expand(chunk - len(where), 2)])  # the context is for a chunk
        rows = plane.origin + padded.flip(1) @ plane.directions
        values.append(_energy(problem, context, rows.view(shape))[: len(where)])
    energy = (torch.cat(values) - lowest).view(resolution, resolution)
    return Landscape(plane, across, along, energy)


def _energy(problem: EnergyProblem, context: Any, z: Tensor) -> Tensor:
    forbidden = torch.isinf(problem.penalty.value(z))
    if bool(forbidden.any()):
        z = torch.where(forbidden.view(-1, *[1] * (z.dim() - 1)), problem.penalty.prox(z), z)
    return problem.energy(z, context)


def log_floor(values: Float[Tensor, "*any"], decades: float | int = 8) -> float:
    """Return the lower end of a logarithmic picture: ``decades`` below the largest value."""
    finite = values[torch.isfinite(values)]
    top = float(finite.max()) if finite.numel() else 0.0
    return top * 10**-decades if top > 0 else math.ulp(1.0)
