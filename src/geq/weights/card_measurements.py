"""Measures a finished run for its card. Long parts are kept in the run's folder as by ``geq analyze``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from geq.analysis.part_runner import analysed, weights_key
from geq.analysis.settings import Progress, Settings, silent
from geq.errors import CheckpointError, InputError
from geq.model.network import Network
from geq.model.pretrained import WEIGHTS
from geq.training.device import limited_threads
from geq.training.evaluation import evaluate
from geq.training.run_folder import RunFolder
from geq.training.setup import evaluation_loader, open_split
from geq.weights.card import CalibrationScores, Card, Certificate, CorruptionScores, Test, Training
from geq.weights.training_command import settings, training_command

IMAGES = 1000
"""Test images that are corrupted, unless asked otherwise."""


def measure(
    folder: RunFolder,
    name: str,
    images: int = IMAGES,
    data_root: str | None = None,
    progress: Progress = silent,
) -> Card:
    """The card of a finished run under the name ``name``, with corruptions measured on ``images`` of its test
    images (all, where there are fewer).
    """
    model, final = trained(folder)
    options, data = replace(folder.options(), data_root=data_root), folder.data()
    whole, some = Settings(), Settings(limit=images)
    test_set = open_split(options, "test")

    def part(name: str, asked: Settings) -> dict[str, Any]:
        progress(name, 0, 1)
        values = analysed(folder, name, asked, data_root, progress)
        progress(name, 1, 1)
        return values

    with limited_threads(options, model):
        progress("accuracy", 0, 1)
        found = evaluate(model, evaluation_loader(test_set, statistics=data.statistics))
        progress("accuracy", 1, 1)
        proved = part("certificate", whole) if model.equilibria() else {}
        calibration = part("calibration", whole)["test"]
        corrupted = part("corruption", some)["runs"][folder.name]
    return Card(
        name=name,
        model=options.model,
        data=options.data,
        shape=list(data.shape),
        classes=list(data.classes),
        parameters=model.parameter_count(),
        weights_bytes=(folder.model / WEIGHTS).stat().st_size,
        weights_sha256=weights_key(folder),
        test=Test(found.images, found.accuracy, found.loss, found.top5, found.steps, found.unconverged),
        calibration=CalibrationScores(
            images=calibration["images"],
            bins=whole.bins,
            confidence=calibration["confidence"],
            ece=100 * calibration["ece"],
            mce=100 * calibration["mce"],
            nll=calibration["nll"],
            brier=calibration["brier"],
        ),
        corruption=CorruptionScores(
            images=min(images, len(test_set)),
            seed=some.seed,
            clean=100 - corrupted["clean_error"],
            accuracy=100 - corrupted["mean_error"],
            groups={group: 100 - error for group, error in corrupted["group_error"].items()},
            each={c: [100 - error for error in errors] for c, errors in corrupted["errors"].items()},
        ),
        certificate={layer: certificate(values) for layer, values in proved.items()},
        training=training(folder, final, len(open_split(options, "train"))),
    )


def trained(folder: RunFolder) -> tuple[Network, dict[str, Any]]:
    """The network of a finished run that classifies images, and the last line of its log."""
    final = folder.result()
    if final is None:
        raise CheckpointError(
            f"only a finished run has a card; {folder.title} is {folder.state()}: resume it with "
            f"'geq train --resume {folder.title}'"
        )
    model = Network.from_pretrained(folder.model)
    if model.labels_pixels:
        raise InputError(f"a card is of a network that classifies images; {folder.title} labels their pixels")
    return model, final


def certificate(found: dict[str, Any]) -> Certificate:
    distances = found["inputs"]["relative_distance_bound"]
    return Certificate(
        kernel=found["kernel"],
        feedback_norm=found["feedback_norm"],
        unique=found["unique"],
        contraction=found["contraction"],
        rate=found["proved_rate"],
        measured_rate=found["measured_rate"],
        images=len(distances),
        distance=None if None in distances else 100 * max(distances),
    )


def training(folder: RunFolder, final: dict[str, Any], train_images: int) -> Training:
    options, environment = folder.options(), folder.environment()
    command = training_command(options)
    return Training(
        command=command,
        settings=settings(options),
        train_images=train_images,
        epochs=final["epochs"],
        cpu_seconds=round(final["cpu_seconds"], 1),
        started=environment.get("started"),
        commit=environment.get("commit"),
        machine=environment.get("machine"),
        packages={name: environment.get("packages", {}).get(name) for name in ("geq", "torch", "numpy")},
    )
