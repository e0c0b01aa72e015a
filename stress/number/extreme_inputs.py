"""Inputs and starts from 1e-30 to 1e30, subnormal, of one pixel, not finite; batches of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor

from geq.equilibrium import Equilibrium
from geq.solvers import FISTA, Anderson, Picard, ProximalGradient, Solver
from stress.number.verdicts import (
    DTYPES,
    HALF,
    LAYERS,
    SOLVERS,
    Verdict,
    VerdictTally,
    build,
    fits,
    sample,
    solve,
)
from stress.stress_parts import StressRow

STEPS = (1e-12, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 1.9, 10.0)
SIZES = (1e-30, 1e-8, 1.0, 1e8, 1e30)


def run(short: bool, generator: torch.Generator) -> Iterator[StressRow]:
    yield magnitude(range(-30, 31, 10) if short else range(-30, 31, 2), generator)
    yield unusual(generator)
    yield not_finite(generator)
    yield batches((1, 64) if short else (1, 64, 2_000, 20_000), generator)
    yield half_precision(generator)


def run_starts(short: bool, generator: torch.Generator) -> Iterator[StressRow]:
    yield starts(STEPS[1::3] if short else STEPS, SIZES[::2] if short else SIZES, generator)


def magnitude(decades: range, generator: torch.Generator, names: Iterable[str] = LAYERS) -> StressRow:
    """Put all sizes in one batch; without biases the state is as small or large as the input."""
    tally = VerdictTally(
        f"inputs of 1e{decades[0]} to 1e{decades[-1]}, every layer and solver, two precisions"
    )
    sizes = torch.tensor([10.0**decade for decade in decades], dtype=torch.float64)
    for name in names:
        x = sample(name, len(sizes), generator)
        x = x * sizes.view(-1, *[1] * (x.dim() - 1))
        for (solver_name, solver), dtype, biased in product(SOLVERS.items(), DTYPES, (True, False)):
            if fits(name, solver):
                layer = build(name, solver).to(dtype)
                for module in layer.modules():
                    bias = getattr(module, "bias", None)
                    if isinstance(bias, Tensor) and not biased:
                        bias.data.zero_()
                solve(tally, f"{name}, {solver_name}, {dtype}, bias {biased}", layer, x.to(dtype))
    return tally.row()


def odd_inputs(
    name: str, dtype: torch.dtype, generator: torch.Generator
) -> tuple[list[Tensor], list[Tensor]]:
    """Return inputs of the usual shape, and those of other shapes and strides."""
    tiny = torch.finfo(dtype).tiny
    usual = sample(name, 3, generator).to(dtype)
    zero, mixed, spike = torch.zeros_like(usual), usual.clone(), torch.zeros_like(usual)
    mixed[0] *= 1e-30
    mixed[1] *= 1e18
    spike[:, 0] = 1e6
    subnormal = (usual.double() * tiny * 1e-3).to(dtype)
    same = [torch.full_like(usual, value) for value in (tiny, torch.finfo(dtype).max, 0.7)]
    together = [zero, -zero, subnormal, *same, mixed, spike, usual.sign()]
    if "2d" not in name:
        return together, []
    side = 2 if "GEQ" in name else 1
    return [*together, usual.transpose(2, 3)], [usual[..., :side, :side].contiguous()]


def unusual(generator: torch.Generator) -> StressRow:
    tally = VerdictTally("zero, subnormal, largest, constant, one pixel, mixed sizes, odd strides")
    for name, (solver_name, solver), dtype in product(LAYERS, SOLVERS.items(), DTYPES):
        if fits(name, solver):
            together, alone = odd_inputs(name, dtype, generator)
            for x in (torch.cat(together), *alone):
                case = f"{name}, {solver_name}, {dtype}, {tuple(x.shape)}"
                solve(tally, case, build(name, solver).to(dtype), x)
    return tally.row()


def not_finite(generator: torch.Generator) -> StressRow:
    """Offer NaN and infinity in the input or the start, which every mode must refuse."""
    tally = VerdictTally("NaN and infinity in the input or the start")

    def question(case: str, layer: Equilibrium, x: Tensor, z0: Tensor | None) -> None:
        layer(x, z0)
        tally.add(case, Verdict.SILENT, "was taken")

    for name, bad, training in product(LAYERS, (float("nan"), float("inf"), -float("inf")), (False, True)):
        layer = build(name).train(training)
        x = sample(name, 3, generator).float()
        layer.on_failure = "ignore"  # the polynomial kernel has not always an equilibrium
        start = layer.solve(x).value
        assert isinstance(start, Tensor)
        poisoned = x.clone()
        poisoned.view(-1)[-1] = bad
        start = torch.where(torch.ones_like(start).cumsum(1) == 1, bad, start)
        for case, argument, z0 in (("input", poisoned, None), ("start", x, start)):
            case = f"{name}, {bad} in the {case}"
            tally.ask(case, partial(question, case, layer, argument, z0))
    return tally.row()


def batches(sizes: tuple[int, ...], generator: torch.Generator) -> StressRow:
    """Solve none, one and very many: the answer to a sample must not depend on its batch."""
    tally = VerdictTally(f"batches of none to {sizes[-1]:,}, each sample as if it were alone")
    for name in LAYERS:
        layer = build(name)
        empty = layer(sample(name, 0, generator).float())
        tally.must(f"{name}, nothing", len(empty) == 0)
        for size in sizes:
            side = 2 if size > 1_000 else 4
            x = sample(name, size, generator, side).float()
            if size <= 64:
                solve(tally, f"{name}, batch of {size}", layer, x)
            layer.on_failure = "ignore"
            among, alone = layer.solve(x), layer.solve(x[-1:])
            assert isinstance(among.value, Tensor)
            assert isinstance(alone.value, Tensor)
            same = bool(among.converged[-1]) == bool(alone.converged[0])
            far = float((among.value[-1:] - alone.value).norm() / alone.value.norm().clamp_min(1e-30))
            same = same and (far <= 10 * layer.tol or not bool(alone.converged[0]))
            tally.must(f"{name}, last of {size}", same, f"differs by {far:.1e}")
    return tally.row()


def half_precision(generator: torch.Generator) -> StressRow:
    """Solve layers of 16 bits, and layers of 32 under autocast."""
    tally = VerdictTally("float16 and bfloat16, as they are and under autocast")
    for name, dtype, scale in product(LAYERS, HALF, (1e-6, 1e-2, 1.0, 1e2, 3e4)):
        x = scale * sample(name, 3, generator)
        solve(tally, f"{name}, {dtype}, {scale:g}", build(name).to(dtype), x.to(dtype))
        with torch.autocast("cpu", dtype=dtype):
            solve(tally, f"{name}, autocast {dtype}, {scale:g}", build(name), x.float())
    return tally.row()


def starts(
    steps: tuple[float, ...],
    sizes: tuple[float, ...],
    generator: torch.Generator,
    names: Iterable[str] = LAYERS,
) -> StressRow:
    """Vary step and start: one that is lost in rounding must not pass for a fixed point."""
    tally = VerdictTally("starts from 1e-30 to 1e30, steps from 1e-12 to 10")
    for name, step in product(names, steps):
        solvers: list[Solver[Any]] = [ProximalGradient(step), FISTA(step)]
        if step <= 1:
            solvers += [Picard(damping=step), Anderson(mixing=step)]
        for solver, dtype in product(solvers, DTYPES):
            if fits(name, solver):
                layer = build(name, solver).to(dtype)
                layer.max_steps = 30
                x = sample(name, len(sizes), generator).to(dtype)
                with torch.no_grad():
                    z: Any = layer.cell.initial_state(layer.cell.inject(x))
                scale = torch.tensor(sizes, dtype=torch.float64).view(-1, *[1] * (z.dim() - 1))
                z0 = (scale * torch.rand(z.shape, generator=generator, dtype=torch.float64)).to(dtype)
                solve(tally, f"{name}, {solver}, {dtype}", layer, x, z0)
    return tally.row()
