"""The compiled patch operation, and whole networks with every equilibrium inside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from geq.equilibrium import Equilibrium
from geq.kernels import PatchGaussianKernel, compiled_patch
from geq.model.model_registry import create_model
from stress.number.verdicts import DTYPES, Verdict, VerdictTally, contexts_of, judge
from stress.stress_parts import StressRow


def run_kernel(short: bool, generator: torch.Generator) -> Iterator[StressRow]:
    if compiled_patch.load() is None:
        return  # without a compiler the formula serves, and there is nothing to compare
    yield twins(1 if short else 5, generator)


def twins(rounds: int, generator: torch.Generator) -> StressRow:
    tally = VerdictTally("compiled kernel against the formula: value, product, gradients")
    for _ in range(rounds):
        for case in product(DTYPES, EXTREMES, (0.0, 1e-30, 1e-3, 1.0, 1e5, 1e30), LAYOUTS):
            compare(tally, *case, generator)
    return tally.row()


def compare(
    tally: VerdictTally,
    dtype: torch.dtype,
    size: float,
    gamma: float,
    layout: torch.memory_format,
    generator: torch.Generator,
) -> None:
    case = f"{dtype}, size {size:g}, γ {gamma:g}"
    similarity = PatchGaussianKernel(2, 4, 6, gamma=gamma).to(dtype)

    def drawn() -> Tensor:
        numbers = torch.randn(2, 8, 4, 4, generator=generator, dtype=torch.float64)
        return numbers.to(dtype).contiguous(memory_format=layout)

    v, u, q = size * drawn(), size * drawn(), drawn()
    # With a graph the formula is used, without one the library.
    recorded, bound = similarity.bind(v), similarity.bind(v)
    formula = answers(recorded, u, q)
    with torch.no_grad():
        assert compiled_patch.usable(v, u, 16)
        library = answers(bound, u, q)
    exponent = gamma * 30 * (size * size)
    names = "value", "product", "value", "in v", "in G", "in γ"
    # The gradient in γ is one sum of terms of either sign: it is as exact as these are large, not as itself.
    terms = min(size * size, 1e300) * float((q.double() * (u - v).double()).abs().sum())
    for name, one, other in zip(names, formula, library, strict=True):
        scale = terms if name == "in γ" and terms < float("inf") else 0.0
        said = f"{one.sum()} and {other.sum()}"
        tally.must(f"{case}, {name}", alike(one.detach(), other, exponent, scale), said)


def answers(bound: Any, u: Tensor, q: Tensor) -> list[Tensor]:
    first, others = bound.pull_back(u, q)
    return [bound.grad(u), bound.product(u, q), first, *others]


def alike(one: Tensor, other: Tensor, exponent: float, scale: float = 0.0) -> bool:
    """Compare up to rounding of the largest value, or of ``scale``; both must overflow at the same places."""
    numbers = torch.finfo(one.dtype)
    finite = one.isfinite()
    if not torch.equal(finite, other.isfinite()):
        # At the very edge the order of a sum decides which of both overflows.
        edge = torch.where(finite, one, other).abs()
        return bool((edge[finite != other.isfinite()] > 1e-3 * numbers.max).all())
    one, other = one[finite].double(), other[finite].double()
    largest = max(scale, float(one.abs().max()), float(other.abs().max())) if one.numel() else 0.0
    slack = 256 * numbers.eps * (1 + min(exponent, 100.0)) * largest + 256 * numbers.tiny
    return bool(((one - other).abs() <= slack).all())


EXTREMES = (0.0, 1e-40, 1e-30, 1e-15, 1e-3, 1.0, 1e3, 1e15, 1e30)
LAYOUTS = (torch.contiguous_format, torch.channels_last)
NETWORKS = ("geq_tiny", "kerdeq_tiny", "opteq_tiny", "mopteq_tiny", "deep_opteq_tiny")


def run(short: bool, generator: torch.Generator) -> Iterator[StressRow]:
    yield networks(NETWORKS if short else (*NETWORKS, "geq_small", "opteq_small"), generator)


def pictures(model: Any, generator: torch.Generator) -> dict[str, Tensor]:
    shape = (3, *model.config.input_shape)
    usual = torch.rand(shape, generator=generator)
    found = {f"1e{decade}": usual * 10.0**decade for decade in (-40, -30, -15, 0, 10, 20, 30)}
    found |= {
        "black": torch.zeros(shape),
        "constant": torch.full(shape, 0.5),
        "one of one": usual[:1],
        "largest": torch.full(shape, torch.finfo(torch.float32).max),
        "NaN": torch.full(shape, float("nan")),
        "infinite": torch.full(shape, float("inf")),
    }
    return found


def networks(names: tuple[str, ...], generator: torch.Generator) -> StressRow:
    tally = VerdictTally(f"networks ({', '.join(names)}), every equilibrium inside")
    for name in names:
        torch.manual_seed(0)
        model = create_model(name)
        for what, x in pictures(model, generator).items():
            # The batch norm of torch refuses batches of one.
            for training in (False, True)[: len(x)]:
                fresh = create_model(name).train(training)
                fresh.load_state_dict(model.state_dict())
                look_inside(tally, f"{name}, {what}, training {training}", fresh, x)
    return tally.row()


def look_inside(tally: VerdictTally, case: str, model: nn.Module, x: Tensor) -> None:
    """Judge each equilibrium by what it was given and what it gave."""
    layers = [layer for layer in model.modules() if isinstance(layer, Equilibrium)]
    contexts: dict[nn.Module, list[Any]] = {}

    def after(layer: nn.Module, arguments: tuple[Any, ...], z: Tensor) -> None:
        assert isinstance(layer, Equilibrium)
        assert layer.last_solution is not None
        judge(tally, case, layer, contexts[layer][-1], z, layer.last_solution)

    for layer in layers:
        layer.register_forward_hook(after)

    def question() -> None:
        with contextlib.ExitStack() as stack:
            contexts.update({layer: stack.enter_context(contexts_of(layer)) for layer in layers})
            logits = model(x)
        if bool(torch.isfinite(x).all()):
            return  # judged by the hooks
        if bool(torch.isfinite(logits).all()):
            tally.add(case, Verdict.SILENT, "answered what is no number")

    tally.ask(case, question)
