"""Training recipes: one for all arms of an experiment at a scale.

* ``smoke``: a moment of training on scikit-learn's digits, to see that everything works; the figures mean
  nothing.
* ``small``: about 50 thousand parameters on a stratified part of the real data, for one core of a laptop, at
  most ten minutes a run. The settings are those of geq's small presets, with fewer epochs.
* ``paper``: the presets of ``geq/training/preset/paper``, for a GPU.
"""

from __future__ import annotations

from typing import Any

from geq_papers.experiment.experiment import ExperimentScale, Measurement

ONE_CORE = {"threads": 1, "accelerator": "cpu", "picture": False}

SMOKE: dict[str, Any] = {
    **ONE_CORE,
    "data": "digits",
    "train_size": 192,
    "batch_size": 64,
    "augment": "shift",
    "learning_rate": 0.1,
    "epochs": 2,
    "warmup_epochs": 0.5,
}

SMALL: dict[str, Any] = {
    **ONE_CORE,
    "batch_size": 64,
    "augment": "crop_flip",
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "momentum": 0.9,
    "nesterov": True,
    "weight_decay": 5e-4,
    "clip": 5.0,
    "schedule": "cosine",
    "warmup_epochs": 1.0,
}


def smoke(*measurements: Measurement) -> ExperimentScale:
    return ExperimentScale(
        SMOKE, "digits, two epochs: shows that it runs, nothing else", measurements, seeds=1
    )


def small(
    data: str, train_size: int, epochs: int, *measurements: Measurement, note: str = "", **changes: Any
) -> ExperimentScale:
    """``train_size`` images, ``epochs`` epochs; measured on all test images every fourth epoch."""
    recipe = {
        **SMALL,
        "data": data,
        "train_size": train_size,
        "epochs": epochs,
        "evaluate_every": 4,
        **changes,
    }
    said = f"{train_size:,} training images of {data}, {epochs} epochs, about 50 thousand parameters"
    return ExperimentScale(recipe, f"{said}; {note}" if note else said, measurements)


def paper(note: str, *measurements: Measurement, **changes: Any) -> ExperimentScale:
    """Each arm starts from its own preset; ``changes`` hold for all."""
    return ExperimentScale(changes, note, measurements, gpu=True)


def sizes(smoke: str | None, small: str | None, paper: str | None, **changes: Any) -> dict[Any, Any]:
    """The options of an arm that is another network at each scale; ``paper`` names a preset.

    >>> sizes("geq_tiny", "geq_small", "paper/geq_cifar10_8m")["small"]
    {'model': 'geq_small'}
    """
    found: dict[Any, Any] = {}
    if smoke is not None:
        found["smoke"] = {"model": smoke, **changes}
    if small is not None:
        found["small"] = {"model": small, **changes}
    if paper is not None:
        found["paper"] = {"preset": paper, **changes}
    return found
