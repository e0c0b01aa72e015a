"""Random fixed-point problems in great number, and what the solvers say of them.

Kernel, penalty, norm rule, γ, sizes, weights, precision, solver, tolerance and limit of each batch are drawn.
Where a solver says that it converged, the residual is computed again, in double precision from the formulas.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from geq.bandwidth import LearnedGamma, PaperGamma
from geq.cells import EnergyProblem
from geq.constraints import SpectralBound, Unconstrained, WeightNorm
from geq.equilibrium import Equilibrium
from geq.errors import OptionError
from geq.kernels import (
    GaussianKernel,
    Kernel,
    LinearKernel,
    PatchGaussianKernel,
    PolynomialKernel,
    SigmoidKernel,
)
from geq.operators import Convolution, Dense, Operator
from geq.penalties import L1, Box, ElasticNet, LeakyPenalty, NonNegative, NoPenalty, TanhPenalty
from geq.solvers import FISTA, Anderson, Broyden, Picard, ProximalGradient, Solver
from stress.number.verdicts import Verdict, VerdictTally, contexts_of, judge
from stress.stress_parts import StressRow

BATCH = 50
PENALTIES = (
    *(NonNegative(), NoPenalty(), Box(-1.0, 1.0), L1(0.1)),
    *(ElasticNet(0.1, 0.5), LeakyPenalty(0.1), TanhPenalty()),
)


def run(short: bool, seed: int) -> Iterator[StressRow]:
    yield from soak(5_000 if short else 100_000, seed)


def soak(problems: int, seed: int) -> Iterator[StressRow]:
    tallies: dict[str, VerdictTally] = {}
    steps: dict[str, list[int]] = {}
    chance = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(-(-problems // BATCH)):
        layer, x = drawn(chance)
        name = type(layer.solver).__name__
        settle(
            tallies.setdefault(name, VerdictTally(f"problems for {name}")),
            steps.setdefault(name, []),
            layer,
            x,
        )
    for name in sorted(tallies):
        yield row(tallies[name], steps[name])


def drawn(chance: random.Random) -> tuple[Equilibrium, Tensor]:
    """Return a layer and a batch of inputs for it."""
    patches = chance.random() < 0.25
    state, middle, into = chance.randint(1, 12), chance.randint(1, 12), chance.randint(1, 6)
    bounds = SpectralBound(), SpectralBound(), SpectralBound(0.5), SpectralBound(1.4)
    norm = chance.choice((*bounds, Unconstrained(), WeightNorm()))
    similarity = kernel(chance, patches)
    injected = middle if similarity.acts_on == "features" else state
    W: Operator
    U: Operator
    if patches:
        padding = chance.choice(("zeros", "circular"))
        W, U = Convolution(state, 4, 3, padding, constraint=norm), Convolution(into, 4, 1, bias=True)
    else:
        W, U = Dense(state, middle, constraint=norm), Dense(into, injected, bias=True)
    assert U.bias is not None
    U.bias.data.normal_()
    W.raw_weight.data.mul_(10 ** chance.uniform(-1, 1))
    dtype = chance.choice((torch.float32, torch.float64))
    tol = 10 ** chance.uniform(*((-6, -1) if dtype == torch.float32 else (-12, -1)))
    layer = Equilibrium(
        EnergyProblem(similarity, W, U, chance.choice(PENALTIES)),
        solver=solver(chance),
        tol=tol,
        max_steps=chance.choice((1, 5, 20, 50, 200)),
        on_failure="ignore",
    ).to(dtype)
    shape = (BATCH, into, 4, 4) if patches else (BATCH, into)
    x = 10 ** chance.uniform(-3, 2) * torch.randn(shape, dtype=dtype)
    return layer.eval(), x


def kernel(chance: random.Random, patches: bool) -> Kernel:
    gamma = chance.choice((10 ** chance.uniform(-4, 2), 0.0, LearnedGamma(), PaperGamma()))
    if patches:
        patch, split = chance.choice((1, 2, 4)), chance.choice((1, 2, 4))
        return PatchGaussianKernel(patch, split, chance.randint(1, 16), gamma)
    gaussian = GaussianKernel(gamma), GaussianKernel(gamma)
    return chance.choice((LinearKernel(), *gaussian, PolynomialKernel(chance.randint(2, 3)), SigmoidKernel()))


def solver(chance: random.Random) -> Solver[Any]:
    return chance.choice(
        (
            Picard(damping=chance.uniform(0.05, 1.0)),
            Anderson(chance.randint(1, 12), chance.uniform(0.1, 1.0), chance.choice((0.0, 1e-8, 1e-2))),
            Broyden(chance.randint(1, 12)),
            ProximalGradient(10 ** chance.uniform(-2, 0.3)),
            FISTA(10 ** chance.uniform(-2, 0.3), chance.random() < 0.5),
        )
    )


def settle(tally: VerdictTally, steps: list[int], layer: Equilibrium, x: Tensor) -> None:
    try:
        with contexts_of(layer) as seen:
            solution = layer.solve(x)
    except OptionError:  # a step and a tolerance that do not go together in this precision
        for _ in x:
            tally.add("", Verdict.SAID, "refused")
        return
    assert isinstance(solution.value, Tensor)
    judge(tally, described(layer), layer, seen[0], solution.value, solution)
    steps += solution.steps[solution.converged].tolist()


def described(layer: Equilibrium) -> str:
    problem = layer.problem
    parts = (problem.kernel, problem.W, problem.penalty, layer.solver)
    words = " ".join(" ".join(str(part).split()) for part in parts)
    return f"{words} tol={layer.tol:g} {problem.W.raw_weight.dtype}"


def row(tally: VerdictTally, steps: list[int]) -> StressRow:
    median, high, most = (int(np.percentile(steps or [0], share)) for share in (50, 95, 100))
    found = tally.row()
    otherwise, silent = tally.verdicts[Verdict.SAID], tally.verdicts[Verdict.SILENT]
    claimed = found.tried - otherwise
    note = (
        f"{claimed:,} converged (evaluations: median {median}, 95 % {high}, most {most}), "
        f"{otherwise:,} said otherwise, {silent} claims wrong" + (f"; {tally.wrong[0]}" if silent else "")
    )
    statuses = {"converged": claimed, "not converged": otherwise - tally.said["refused"], **tally.said}
    evaluations = {"median": median, "95 %": high, "max": most}
    return replace(
        found, note=note, detail={**found.detail, "statuses": statuses, "evaluations": evaluations}
    )
