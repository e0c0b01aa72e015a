"""Whole networks: what reaches their equilibria, and what these say of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from geq.equilibrium import Equilibrium
from geq.model.registry import create_model
from stress.number.verdict import Tally, Verdict, contexts_of, judge
from stress.part import Row

NETWORKS = ("geq_tiny", "kerdeq_tiny", "opteq_tiny", "mopteq_tiny", "deep_opteq_tiny")
LARGER = ("geq_small", "opteq_small")


def run(short: bool, seed: int) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(seed)
    yield networks(NETWORKS if short else (*NETWORKS, *LARGER), generator)


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


def networks(names: tuple[str, ...], generator: torch.Generator) -> Row:
    tally = Tally(f"networks ({', '.join(names)}), every equilibrium inside")
    for name in names:
        torch.manual_seed(0)
        model = create_model(name)
        for what, x in pictures(model, generator).items():
            for training in (False, True):
                if training and len(x) == 1:
                    continue  # torch's batch norm refuses batches of one
                fresh = create_model(name).train(training)
                fresh.load_state_dict(model.state_dict())
                look_inside(tally, f"{name}, {what}, training {training}", fresh, x)
    return tally.row()


def look_inside(tally: Tally, case: str, model: nn.Module, x: Tensor) -> None:
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
