"""Shared arms and recipes of the study's experiments.

Every choice is made by validation images, which are held out of the training images; test images are for the
finalists (``study-final``). All runs are small: minutes of one core.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.equilibrium_measurement import Validated
from geq_papers.experiment.experiment import Arm, ExperimentScale, Measurement, Metric
from geq_papers.experiment.training_recipe import SMALL, sizes, small, smoke

VALIDATION = Metric("validation_accuracy", "validation")
FEEDBACK = Metric("feedback", "‖Wz‖/‖Ux + b‖", "", 3)
EVALUATIONS = Metric("evaluations", "evaluations", "", 1, lower_is_better=True)
GROWTH = Metric("gamma_ratio", "γ, last by first", "", 2, lower_is_better=True)
RANK = Metric("rank_kept", "rank of W_h kept")
DISTANCE = Metric("distance_ratio", "q, last by first", "", 3)
BETA = Metric("beta_mean", "mean β", "", 3)
TRAIN_LOSS = Metric("train_loss", "training loss", "nats", 3, lower_is_better=True)
CPU = Metric("cpu_seconds", "CPU", "s", 0, lower_is_better=True)
EVEN_LOSS = Metric("even_loss", "lost by even weights", "points")


CASCADE = "geq_cascade_small"
"""The shape that question 6 ends with: stacked equilibria."""
STRONG = "geq_strong_small"
"""... and with the feedback that question 2 ends with: what the later questions ask about."""
PAPER = "geq_small"
"""The papers' shape: equilibria side by side."""


def geq_arm(label: str, *override: str, model: str = CASCADE, **changes: Any) -> Arm:
    """A setting of a small network; at scale smoke, of the tiny one."""
    options = {"override": list(override), **changes}
    tiny = model.replace("small", "tiny")
    return Arm(label, {"smoke": {"model": tiny, **options}, "small": {"model": model, **options}})


def small_only(arm: Arm) -> Arm:
    """Without scale smoke: its setting is none of the tiny network."""
    return replace(arm, options={"small": arm.options["small"]})


def control_arm(*override: str, label: str = "γ = 0", model: str = CASCADE, **changes: Any) -> Arm:
    return replace(geq_arm(label, "gamma=zero", *override, model=model, **changes), control=True)


def four_networks() -> dict[str, Arm]:
    """GEQ, what it is compared with, and its control."""
    return {
        "resnet": Arm("ResNet-18", sizes("resnet_tiny", "resnet_small", None)),
        "linear": geq_arm("linear (OptEq)", model="opteq_cascade_small"),
        "control": control_arm(label="GEQ, γ = 0", model=STRONG),
        "geq": geq_arm("GEQ", model=STRONG),
    }


def geq_is_better(where: str) -> tuple[Claim, ...]:
    """... than each of the others of :func:`four_networks`."""
    others = {"control": "γ = 0", "linear": "the linear kernel", "resnet": "a ResNet"}
    return tuple(better(f"{where} GEQ is better than {name}", "geq", arm) for arm, name in others.items())


def under_each(metrics: Iterable[Metric]) -> tuple[Claim, ...]:
    """GEQ against its control and against the linear kernel, kind by kind of what is done to images."""
    texts = {"control": "the Gaussian is better than γ = 0", "linear": "GEQ is better than the linear kernel"}
    kinds = list(metrics)
    return tuple(
        better(f"Under {metric.label} {text}", "geq", arm, metric)
        for arm, text in texts.items()
        for metric in kinds
    )


def studied(
    data: str, train_size: int, epochs: int, *measurements: Measurement, note: str = "", **changes: Any
) -> dict[Any, ExperimentScale]:
    """Both scales of a study: 5,000 of the training images judge, and the end of the training is measured."""
    recipe = {
        **SMALL,
        "data": data,
        "train_size": train_size,
        "validation": 5000,
        "epochs": epochs,
        "evaluate_every": epochs,
        **changes,
    }
    said = f"{train_size:,} training images of {data}, {epochs} epochs, validated on 5,000 others"
    found = (Validated(), *measurements)
    return {
        "smoke": smoke(*found),
        "small": ExperimentScale(recipe, f"{said}; {note}" if note else said, found, seeds=3),
    }


def finalists(data: str, *measurements: Measurement, note: str) -> ExperimentScale:
    """Return the scale of the final comparison on test images: longer trainings, on more images."""
    return small(data, 12_000, 8, *measurements, note=note, evaluate_every=8)


def better(text: str, one: str, other: str, metric: Metric = VALIDATION, **changes: Any) -> Claim:
    """A question of ours."""
    return Claim(text, one, other, metric.key, lower_is_better=metric.lower_is_better, ours=True, **changes)
