"""Maps that are hard on a solver: collinear residuals, long windows, no contraction, no fixed point."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from geq.solvers import Anderson, Broyden, Picard, Solver, fixed_point
from stress.number.literal_cells import norm
from stress.number.verdicts import DTYPES, HALF, SOLVERS, VerdictTally, allowed, from_an_energy
from stress.stress_parts import StressRow

Map = Callable[[Tensor], Tensor]
BATCH = 4


def linear(matrix: Tensor, shift: Tensor) -> Map:
    return lambda z: z @ matrix.to(z).t() + shift.to(z)


def maps(size: int, generator: torch.Generator) -> dict[str, Map]:
    """Return maps of vectors of that size, in the precision of their argument."""
    matrix = torch.randn(size, size, generator=generator, dtype=torch.float64)
    contraction = 0.9 * matrix / torch.linalg.matrix_norm(matrix, 2)
    shift = torch.randn(size, generator=generator, dtype=torch.float64)
    a, b = torch.randn(2, size, generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(matrix)[0]
    unit = torch.eye(size, dtype=torch.float64)
    return {
        "contraction": linear(contraction, shift),
        "rank one": linear(0.9 * torch.outer(a, b) / (a.norm() * b.norm()), shift),
        "multiple of the identity": linear(0.99 * unit, shift),
        "nilpotent": linear(torch.triu(matrix, 1), shift),
        "nilpotent, 1e6": linear(1e6 * torch.triu(matrix, 1), shift),
        "condition 1e12": linear(torch.diag(1 - torch.logspace(0, -12, size, dtype=torch.float64)), shift),
        "constant": lambda z: shift.to(z).expand_as(z).clone(),
        "identity": lambda z: z.clone(),
        "isometry": linear(rotation, shift),
        "reflection": linear(-unit, shift),
        "expansion 1.5": linear(1.5 * unit, shift),
        "expansion 1e4": linear(1e4 * rotation, shift),
        "no fixed point": lambda z: z + 1,
        "no fixed point, slow": lambda z: z + 1e-3,
        "square": lambda z: z * z + 0.2,
        "exponential": lambda z: z.exp(),
        "logistic, chaotic": lambda z: 3.9 * z * (1 - z),
        "steep tanh": lambda z: torch.tanh(20 * z + shift.to(z)),
        "cosine": lambda z: torch.cos(3 * z),
        "reciprocal": lambda z: 1 / z,
        "logarithm": lambda z: z.log(),
        "root": lambda z: z.abs().sqrt(),
        "sign": lambda z: -z.sign(),
        "1e30 of a contraction": linear(contraction, 1e30 * shift),
        "1e-30 of a contraction": linear(contraction, 1e-30 * shift),
        "infinite": lambda z: torch.full_like(z, math.inf),
        "NaN in one sample": lambda z: torch.cat((z[:1] * math.nan, 0.5 * z[1:] + 1)),
        "decay to zero": lambda z: 0.5 * z,
    }


def run(short: bool, generator: torch.Generator) -> Iterator[StressRow]:
    rounds = 1 if short else 2
    for dtype in (*DTYPES, *HALF):
        yield hard_maps((3,) if short else (1, 3, 12), rounds, dtype, generator)
    yield windows(2 if short else 20, generator)


def claim(tally: VerdictTally, case: str, fn: Map, start: Tensor, solver: Solver[Any], tol: float) -> None:
    """Solve, and evaluate the map in double precision where convergence is claimed."""

    def question() -> None:
        solution = fixed_point(fn, start, solver, tol=tol, max_steps=60, on_failure="ignore")
        assert isinstance(solution.value, Tensor)
        z = solution.value.double()
        image = fn(z)
        size = max(1, z.shape[1])
        # A product with a matrix adds up numbers that can be larger than the result.
        others = fn(torch.zeros_like(z)).abs() + (fn(2 * z) - image).abs()
        scale = norm(image) + norm(z) + norm(others.nan_to_num(0.0, 0.0, 0.0))
        limit = allowed(tol, norm(image), scale, start.dtype, size) + 1e-15
        tally.claims(case, solution, norm(image - z), limit)

    tally.ask(case, question)


def hard_maps(
    sizes: tuple[int, ...], rounds: int, dtype: torch.dtype, generator: torch.Generator
) -> StressRow:
    tol = 1e-2 if dtype in HALF else 1e-5
    tally = VerdictTally(
        f"maps without contraction, without answer, singular ({str(dtype).removeprefix('torch.')})"
    )
    for _ in range(rounds):
        for size in sizes:
            for what, fn in maps(size, generator).items():
                start = torch.rand(BATCH, size, generator=generator, dtype=torch.float64).to(dtype)
                for name, solver in SOLVERS.items():
                    if not from_an_energy(solver):
                        claim(tally, f"{what}, size {size}, {name}", fn, start, solver, tol)
    return tally.row()


def windows(rounds: int, generator: torch.Generator) -> StressRow:
    """Try windows larger than the space, of one, without ridge; tolerances near rounding."""
    tally = VerdictTally(
        "ill-conditioned windows: memory above the dimension, no ridge, tolerance at rounding"
    )
    solvers: list[Solver[Any]] = [
        Anderson(memory=1),
        Anderson(memory=30, ridge=0.0),
        Anderson(memory=30, ridge=1e-16, mixing=0.1),
        Anderson(memory=3, ridge=0.9),
        Broyden(memory=1),
        Broyden(memory=30),
        Picard(damping=1e-3),
    ]
    chosen = ("contraction", "rank one", "nilpotent", "condition 1e12", "expansion 1.5", "isometry")
    precisions = ((torch.float32, 3e-7), (torch.float64, 1e-13))
    for number in range(rounds):
        found = maps(1 + number % 4, generator)
        for what, solver, (dtype, tol) in product(chosen, solvers, precisions):
            start = torch.zeros(BATCH, 1 + number % 4, dtype=dtype)
            claim(tally, f"{what}, {solver}, {dtype}", found[what], start, solver, tol)
    return tally.row()
