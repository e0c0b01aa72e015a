"""Ways to save evaluations that were measured and not taken; the decisions cite these figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geq.data.dataset_registry import load_dataset
from geq.equilibrium import Equilibrium
from geq.model.model_registry import create_model
from geq.model.network import Network
from geq_papers.bench.case import BenchSetting, CaseResult
from geq_papers.bench.cifar_branches import BRANCHES, OUT_CHANNELS
from geq_papers.bench.network import optimiser_step
from geq_papers.bench.timing import constant, in_turns, ratio

TRAINED_FOR = 60
BATCH = 64


def digit_batches(count: int) -> list[tuple[Tensor, Tensor]]:
    digits: Any = load_dataset("digits", "train", validation=0)
    images, labels = digits.batch(torch.arange(count * BATCH))
    images = (images.float() / 255 - 0.3) / 0.35
    return list(zip(images.split(BATCH), labels.split(BATCH), strict=True))


def trained_network(batches: list[tuple[Tensor, Tensor]]) -> Network:
    """A small network after some steps on real images: at initialisation all samples are alike."""
    torch.manual_seed(0)
    model = create_model("geq_tiny")
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(TRAINED_FOR):
        images, labels = batches[step % len(batches)]
        optimiser.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimiser.step()
    return model.eval()


class Inputs:
    """Inputs of every equilibrium of a network."""

    def __init__(self, model: nn.Module, images: Tensor) -> None:
        self.found: list[tuple[Equilibrium, Tensor]] = []
        layers = [module for module in model.modules() if isinstance(module, Equilibrium)]
        hooks = [layer.register_forward_pre_hook(self._note) for layer in layers]
        with torch.no_grad():
            model(images)
        for hook in hooks:
            hook.remove()

    def _note(self, layer: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        assert isinstance(layer, Equilibrium)
        self.found.append((layer, arguments[0]))


def choices(setting: BenchSetting) -> Iterator[CaseResult]:
    """Measure the gain of dropping samples, warm starts, loose tolerances and joint branches."""
    batches = digit_batches(6)
    model = trained_network(batches)
    first, second = Inputs(model, batches[0][0]).found, Inputs(model, batches[1][0]).found
    needed = [layer.solve(x).steps.double() for layer, x in second]
    spared = sum(float(steps.mean()) for steps in needed) / sum(float(steps.max()) for steps in needed)
    yield CaseResult("dropping converged samples, evaluations", constant(spared), "× those of all")

    cold = warm = 0.0
    for (layer, before), (_, x) in zip(first, second, strict=True):
        value = layer.solve(before).value
        assert isinstance(value, Tensor)
        typical = value.mean(0, keepdim=True).expand_as(value).contiguous()
        cold += float(layer.solve(x).steps.double().mean())
        warm += float(layer.solve(x, typical).steps.double().mean())
    yield CaseResult(
        "start at the last batch's mean state, evaluations", constant(warm / cold), "× from zero"
    )

    torch.manual_seed(0)
    images = torch.randn(BATCH, 3, 32, 32)
    networks = {tol: create_model("geq_small") for tol in (1e-3, 1e-2)}
    for tol, network in networks.items():
        for module in network.modules():
            if isinstance(module, Equilibrium):
                module.tol = tol
    works = {str(tol): optimiser_step(network, images) for tol, network in networks.items()}
    seconds = in_turns(works, setting.repeats)
    yield CaseResult("training step to 1e-2", ratio(seconds["0.01"], seconds["0.001"]), "× the time to 1e-3")

    branch = BRANCHES[2]
    maps = torch.randn(branch.batch, OUT_CHANNELS, branch.side, branch.side)
    maps = maps.contiguous(memory_format=torch.channels_last)
    both = torch.cat([maps, maps], 1).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(branch.mid_channels, OUT_CHANNELS, 3, 3)
    stacked = torch.cat([weight, weight])
    with torch.no_grad():
        seconds = in_turns(
            {
                "apart": lambda: [F.conv2d(maps, weight, padding=1) for _ in range(2)],
                "together": lambda: F.conv2d(both, stacked, padding=1, groups=2),
            },
            2 * setting.repeats,
        )
    joint = ratio(seconds["together"], seconds["apart"])
    yield CaseResult("two equal branches as one grouped convolution", joint, "× the time apart")
