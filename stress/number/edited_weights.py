"""Weights that are edited by hand, past every check; γ from 0 to infinity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch
from torch import Tensor

from geq.bandwidth import GammaRule, LearnedGamma, MedianGamma, PaperGamma, RunningScale, as_gamma_rule
from geq.constraints import Constraint, LearnedSpectralBound, SpectralBound, SpectralEquality
from geq.equilibrium import Equilibrium
from geq.kernels import GaussianKernel
from geq.operators import Operator
from stress.number.verdicts import DTYPES, LAYERS, VerdictTally, build, contexts_of, judge, sample, solve
from stress.stress_parts import StressRow

Edit = Callable[[Tensor, torch.Generator], Tensor]

RADIAL = [name for name in LAYERS if name.startswith("GEQ")]
ACCURACY = 1.01
"""Accuracy of a power iteration of 200 steps: it stops below singular values that are alike."""


def with_first(w: Tensor, number: float) -> Tensor:
    changed = w.clone()
    changed.view(-1)[0] = number
    return changed


EDITS: dict[str, Edit] = {
    "ten times": lambda w, g: 10 * w,
    "1e15 times": lambda w, g: 1e15 * w,
    "1e30 times": lambda w, g: 1e30 * w,
    "1e-30 times": lambda w, g: 1e-30 * w,
    "other numbers": lambda w, g: 3 * torch.randn(w.shape, generator=g, dtype=torch.float64).to(w),
    "one large entry": lambda w, g: with_first(w, 50.0),
    "all alike": lambda w, g: torch.full_like(w, 2.0),
    "zero": lambda w, g: torch.zeros_like(w),
    "NaN": lambda w, g: with_first(w, float("nan")),
    "infinity": lambda w, g: with_first(w, float("inf")),
}


def run(short: bool, generator: torch.Generator) -> Iterator[StressRow]:
    rounds = 1 if short else 2
    yield edited(rounds, generator)
    yield bounded(rounds, generator)
    yield fixed_gamma(range(-30, 31, 10) if short else range(-300, 301, 10), generator)
    yield learned_gamma(rounds, generator)
    yield poisoned(generator)


def feedbacks(layer: Equilibrium) -> list[Operator]:
    """Return the operators whose norm is bounded."""
    return [m for m in layer.modules() if isinstance(m, Operator) and isinstance(m.constraint, SpectralBound)]


def edited(rounds: int, generator: torch.Generator) -> StressRow:
    """Edit after a first solve, so that what is cached of the old weights can mislead."""
    tally = VerdictTally("weights edited by hand after a solve, in evaluation and in training")
    for _ in range(rounds):
        for name in LAYERS:
            x = sample(name, 4, generator)
            for (what, edit), dtype, training in product(EDITS.items(), DTYPES, (False, True)):
                layer = build(name).to(dtype).train(training)
                layer.on_failure = "ignore"
                layer(x.to(dtype))
                for operator in feedbacks(layer):
                    operator.raw_weight.data.copy_(edit(operator.raw_weight.data, generator))
                case = f"{name}, {what}, {dtype}, training {training}"
                (trained if training else solve)(tally, case, layer, x.to(dtype))
    return tally.row()


def trained(tally: VerdictTally, case: str, layer: Equilibrium, x: Tensor) -> None:
    """Solve in training, which continues with what it has; ``last_solution`` must report it."""

    def question() -> None:
        with contexts_of(layer) as seen:
            z = layer(x)
        assert layer.last_solution is not None
        judge(tally, case, layer, seen[0], z, layer.last_solution)

    tally.ask(case, question)


def exact_norm(operator: Operator, x: Tensor) -> float:
    """Return ‖A‖ of the effective weight, by all singular values of the whole map at the size of x."""
    with torch.no_grad():
        try:
            bound = operator.bind(x)
        except torch.linalg.LinAlgError:  # of weights that are no numbers
            return float("nan")
        shape = operator.argument_shape(x)
        basis = torch.eye(int(torch.Size(shape).numel()), dtype=torch.float64).view(-1, *shape[1:])
        matrix = operator.apply_weight(bound.weight.double(), basis).flatten(1)
    if not bool(matrix.isfinite().all()):
        return float("nan")
    return float(torch.linalg.matrix_norm(matrix, 2))


def bounded(rounds: int, generator: torch.Generator) -> StressRow:
    """Check the bound itself: the effective norm keeps it after any edit, or is NaN."""
    tally = VerdictTally("norm bound after edits, against all singular values")
    rules: list[type[Constraint]] = [SpectralBound, SpectralEquality, LearnedSpectralBound]
    for _ in range(rounds):
        for name in ("GEQ2d", "OptEqLinear", "DeepOptEq2d"):
            x = sample(name, 2, generator).float()
            for rule, (what, edit) in product(rules, EDITS.items()):
                layer = build(name)
                training = what != "other numbers" or bool(torch.rand((), generator=generator) < 0.5)
                for operator in feedbacks(layer):
                    operator.adopt_constraint(rule())
                layer.train(training)(x)
                for operator in feedbacks(layer):
                    operator.raw_weight.data.copy_(edit(operator.raw_weight.data, generator))
                    reached = exact_norm(operator, x)
                    case = f"{name}, {rule.__name__}, {what}"
                    tally.must(case, not reached > 0.95 * ACCURACY, f"norm {reached:.4g}, bound 0.95")
    return tally.row()


def with_rule(name: str, rule: GammaRule | float, dtype: torch.dtype) -> Equilibrium:
    layer = build(name)
    assert isinstance(layer.problem.kernel, GaussianKernel)
    layer.problem.kernel.gamma = as_gamma_rule(rule)
    return layer.to(dtype).eval()


def fixed_gamma(decades: range, generator: torch.Generator) -> StressRow:
    tally = VerdictTally(f"fixed γ: 0, and 1e{decades[0]} to 1e{decades[-1]}")
    for name in RADIAL:
        x = sample(name, 4, generator)
        for dtype, value in product(DTYPES, (0.0, *(10.0**decade for decade in decades))):
            solve(tally, f"{name}, γ = {value:g}, {dtype}", with_rule(name, value, dtype), x.to(dtype))
    return tally.row()


def learned_gamma(rounds: int, generator: torch.Generator) -> StressRow:
    """Set θ and the running scale to extremes, in evaluation and in training."""
    tally = VerdictTally("learned γ with its numbers at extremes")
    infinity, nan = float("inf"), float("nan")
    thetas = (-1e30, -100.0, 0.0, 1e4, 1e30, infinity, nan)
    for _ in range(rounds):
        for name in RADIAL:
            x = sample(name, 4, generator)
            for rule, theta in (
                *((LearnedGamma, theta) for theta in thetas),
                (MedianGamma, 0.0),
                (PaperGamma, 0.0),
            ):
                case = f"{name}, {rule.__name__}, θ = {theta:g}"
                for scale, dtype in product((None, 0.0, 1e-40, 1e-20, 1e30, infinity, nan), DTYPES):
                    made = rule()
                    if isinstance(made, LearnedGamma):
                        made.theta.data.fill_(theta)
                    if scale is not None:
                        made.scale.fill_(scale)
                        made.batches_seen.fill_(5)
                    layer = with_rule(name, made, dtype)
                    solve(tally, f"{case}, m = {scale}, {dtype}", layer, x.to(dtype))
                trained(tally, f"{case}, training", layer.train(), x.to(dtype))
    return tally.row()


def poisoned(generator: torch.Generator) -> StressRow:
    """Train on a batch that overflows: it must not spoil the running scale."""
    tally = VerdictTally("running scale of γ after a batch that overflows")

    def step(layer: Equilibrium, x: Tensor) -> None:
        layer(x)  # its answer does not matter

    for name in RADIAL:
        for made in (LearnedGamma(), MedianGamma(), PaperGamma(per="batch")):
            assert isinstance(made, RunningScale)
            layer = with_rule(name, made, torch.float32).train()
            x = sample(name, 4, generator).float()
            for size in (1.0, 1e25, 1e37, 1.0):
                tally.ask(f"{name}, {size:g}", partial(step, layer, size * x))
            remembered = float(made.scale)
            tally.must(f"{name}, {type(made).__name__}", remembered < float("inf"), f"scale {remembered}")
    return tally.row()
