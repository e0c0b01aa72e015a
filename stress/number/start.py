"""Solves that do not start at zero: at the answer, far from it, and with steps from none to too long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from geq.solvers import FISTA, Anderson, Picard, ProximalGradient, Solver
from stress.number.layer import DTYPES, LAYERS, build, fits, sample
from stress.number.verdict import Tally, solve
from stress.part import Row

STEPS = (1e-12, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 1.9, 10.0)
SIZES = (1e-30, 1e-8, 1.0, 1e8, 1e30)


def run(short: bool, seed: int) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(seed)
    yield starts(STEPS[1::3] if short else STEPS, SIZES[::2] if short else SIZES, generator)


def starts(
    steps: tuple[float, ...],
    sizes: tuple[float, ...],
    generator: torch.Generator,
    names: Iterable[str] = LAYERS,
) -> Row:
    """A step that is lost in rounding, or a state that is, must not pass for a fixed point."""
    tally = Tally("starts from 1e-30 to 1e30, steps from 1e-12 to 10")
    for name in names:
        for step in steps:
            solvers: list[Solver[Any]] = [ProximalGradient(step), FISTA(step)]
            if step <= 1:
                solvers += [Picard(damping=step), Anderson(mixing=step)]
            for solver in solvers:
                if not fits(name, solver):
                    continue
                for dtype in DTYPES:
                    layer = build(name, solver).to(dtype)
                    layer.max_steps = 30
                    x = sample(name, len(sizes), generator).to(dtype)
                    with torch.no_grad():
                        context = layer.cell.inject(x)
                        z = torch.zeros_like(layer.cell.initial_state(context))  # type: ignore[arg-type]
                    scale = torch.tensor(sizes, dtype=torch.float64).view(-1, *[1] * (z.dim() - 1))
                    z0 = (scale * torch.rand(z.shape, generator=generator, dtype=torch.float64)).to(dtype)
                    solve(tally, f"{name}, {solver}, {dtype}", layer, x, z0)
    return tally.row()
