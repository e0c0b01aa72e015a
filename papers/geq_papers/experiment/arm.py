"""Arms that several experiments of GEQ have in common."""

from __future__ import annotations

from typing import Any

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Arm, Metric
from geq_papers.experiment.recipe import sizes

ACCURACY = Metric("test_accuracy", "accuracy")
PARAMETERS = Metric("parameters", "parameters", "", 0, lower_is_better=True)


def resnet18(preset: str, **changes: Any) -> Arm:
    return Arm("ResNet-18", sizes("resnet_tiny", "resnet_small", preset, **changes))


MDEQ_EVALUATIONS = {"cifar10": 20, "cifar100": 16}
"""At scale small, at most. Its authors take about 20; on CIFAR-100, where of one seed hardly an
image settles, a run would take twelve minutes with so many."""


def mdeq(data: str, preset: str | None = None) -> Arm:
    options = sizes("mdeq_tiny", "mdeq_small", preset)
    most = MDEQ_EVALUATIONS[data]
    options["small"]["override"] = [f"max_steps={most}", f"gradient_steps={most}"]
    return Arm("MDEQ", options)


def mopteq(preset: str | None, label: str = "MOptEq") -> Arm:
    return Arm(label, sizes("mopteq_tiny", "mopteq_small", preset))


def geq(preset: str | None, label: str = "GEQ (8M)") -> Arm:
    return Arm(label, sizes("geq_tiny", "geq_small", preset))


def control(preset: str) -> Arm:
    """GEQ with all weights β = 1: everything of it but the Gaussian."""
    at_paper = {"preset": preset, "override": ["gamma=zero", "gradient=phantom"]}
    return Arm(
        "GEQ, γ = 0",
        {**sizes("geq_tiny_control", "geq_small_control", None), "paper": at_paper},
        control=True,
    )


def imagenet_arms(preset: str, mopteq_preset: str, small_preset: str) -> dict[str, Arm]:
    """The arms of table 2; at scale paper all of them are trained by the recipe of ``preset``."""
    at_paper = {"preset": preset, "override": []}
    return {
        "resnet": Arm("ResNet-18", {**resnet18(preset).options, "paper": {**at_paper, "model": "resnet18"}}),
        "resnet50": Arm("ResNet-50", {"paper": {**at_paper, "model": "resnet50"}}),
        "mdeq": Arm("MDEQ", {}),
        "mopteq": mopteq(mopteq_preset),
        "control": control(preset),
        "geq_6m": Arm("GEQ (6M)", sizes(None, None, small_preset)),
        "geq": geq(preset, "GEQ (13M)"),
    }


def against_control(metric: Metric = ACCURACY, better: str = "geq") -> Claim:
    """The question that no paper asks: is it the Gaussian?"""
    return Claim(
        "The Gaussian is better than its γ = 0 control",
        better,
        "control",
        metric.key,
        lower_is_better=metric.lower_is_better,
        ours=True,
    )
