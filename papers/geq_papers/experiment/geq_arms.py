"""Arms that several experiments of GEQ have in common."""

from __future__ import annotations

from typing import Any

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Arm, Experiment, ExperimentScale, Metric, ScaleName
from geq_papers.experiment.training_recipe import sizes, smoke

ACCURACY = Metric("test_accuracy", "accuracy")
PARAMETERS = Metric("parameters", "parameters", "", 0, lower_is_better=True)


def resnet18(preset: str, **changes: Any) -> Arm:
    return Arm("ResNet-18", sizes("resnet_tiny", "resnet_small", preset, **changes))


MDEQ_EVALUATIONS = {"cifar10": 20, "cifar100": 16}
"""At scale small, at most. Its authors take about 20; on CIFAR-100, where of one seed hardly an
image converges, a run would take twelve minutes with so many."""


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


def cifar_arms(data: str) -> dict[str, Arm]:
    """Return the arms of GEQ's table 1."""
    return {
        "resnet": resnet18(f"paper/resnet18_{data}"),
        "resnet50": Arm("ResNet-50", sizes(None, None, f"paper/resnet50_{data}")),
        "mdeq": mdeq(data, f"paper/mdeq_{data}_10m"),
        "mopteq": mopteq(f"paper/mopteq_{data}_8m"),
        "control": control(f"paper/geq_{data}_8m"),
        "geq_5m": Arm("GEQ (5M)", sizes(None, None, f"paper/geq_{data}_5m")),
        "geq": geq(f"paper/geq_{data}_8m"),
    }


def imagenet_arms(data: str, mopteq_preset: str) -> dict[str, Arm]:
    """Return the arms of GEQ's table 2; at scale paper all are trained by the recipe of GEQ (13M)."""
    preset = f"paper/geq_{data}_13m"
    at_paper = {"preset": preset, "override": []}
    return {
        "resnet": Arm("ResNet-18", {**resnet18(preset).options, "paper": {**at_paper, "model": "resnet18"}}),
        "resnet50": Arm("ResNet-50", {"paper": {**at_paper, "model": "resnet50"}}),
        "mdeq": Arm("MDEQ", {}),
        "mopteq": mopteq(mopteq_preset),
        "control": control(preset),
        "geq_6m": Arm("GEQ (6M)", sizes(None, None, f"paper/geq_{data}_6m")),
        "geq": geq(preset, "GEQ (13M)"),
    }


def accuracy_table(
    table: str,
    data: str,
    opening: str | None,
    arms: dict[str, Arm],
    published: dict[str, tuple[float, float]],
    scales: dict[ScaleName, ExperimentScale],
) -> Experiment:
    """Return one of GEQ's tables of accuracies.

    It claims that GEQ beats each of the others that has runs, by the difference of the published means.

    Args:
        table: Its number in the paper, like ``"1a"``.
        data: Name of the dataset in the paper.
        opening: Docstring of the experiment.
        arms: Networks.
        published: Mean and spread of the accuracy of each arm.
        scales: Scales but for ``smoke``.
    """
    key, best = ACCURACY.key, published["geq"][0]
    beaten = [name for name in ("mopteq", "mdeq", "resnet", "resnet50") if arms[name].options]
    return Experiment(
        name=f"geq-table-{table}",
        title=f"Accuracy on {data}",
        source=f"GEQ table {table}",
        opening=opening or "",
        arms=arms,
        metrics=(ACCURACY, PARAMETERS),
        published={name: {key: value} for name, value in published.items()},
        claims=(
            *(
                Claim(
                    f"GEQ is better than {arms[name].label}",
                    "geq",
                    name,
                    key,
                    round(best - published[name][0], 1),
                )
                for name in beaten
            ),
            against_control(),
        ),
        scales={"smoke": smoke(), **scales},
    )


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
