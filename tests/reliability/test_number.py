"""Small instances of the numerical stress, and that it would notice a lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from stress.number import edited_weights, extreme_inputs, hard_maps, network
from stress.number.verdicts import LAYERS, Verdict, VerdictTally, build, contexts_of, judge, sample

from geq.kernels import compiled_patch


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


@pytest.mark.parametrize("name", LAYERS)
def test_right_answers_are_found_right_and_wrong_ones_wrong(name: str) -> None:
    layer, x = build(name), sample(name, 3, generator()).float()
    layer.on_failure = "ignore"
    with contexts_of(layer) as seen:
        solution = layer.solve(x)
    honest, dishonest = VerdictTally("honest"), VerdictTally("dishonest")
    assert isinstance(solution.value, torch.Tensor)
    judge(honest, name, layer, seen[0], solution.value, solution)
    assert not honest.wrong
    assert honest.row().held
    claimed = replace(solution, converged=torch.ones_like(solution.converged))
    judge(dishonest, name, layer, seen[0], solution.value + 0.1, claimed)
    assert dishonest.verdicts[Verdict.SILENT] == 3
    assert not dishonest.row().held


@pytest.mark.parametrize(
    "family",
    [
        lambda: extreme_inputs.not_finite(generator()),
        lambda: extreme_inputs.batches((1, 16), generator()),
        lambda: edited_weights.fixed_gamma(range(-30, 31, 30), generator()),
        lambda: edited_weights.poisoned(generator()),
    ],
    ids=["not finite", "batches", "gamma", "running scale"],
)
def test_nothing_wrong_in_silence(family: Any) -> None:
    row = family()
    assert row.held, row.detail["wrong"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    [
        lambda: extreme_inputs.magnitude(range(-30, 31, 20), generator(), ["GEQLinear"]),
        lambda: extreme_inputs.starts((1e-9, 0.1), (1e-30, 1.0), generator(), ["OptEqLinear"]),
        lambda: edited_weights.bounded(1, generator()),
        lambda: hard_maps.hard_maps((2,), 1, torch.float16, generator()),
        lambda: hard_maps.windows(1, generator()),
    ],
    ids=["sizes", "starts", "norm bound", "maps", "windows"],
)
def test_nothing_wrong_in_silence_either(family: Any) -> None:
    row = family()
    assert row.held, row.detail["wrong"]


def test_compiled_kernel_is_compared() -> None:
    tally = VerdictTally("kernel")
    if compiled_patch.load() is None:
        pytest.skip("no C compiler on this machine")
    network.compare(tally, torch.float32, 1.0, 0.5, torch.channels_last, generator())
    assert tally.row().held
    assert not network.alike(torch.ones(3), torch.ones(3) + 1e-2, 0.0)
