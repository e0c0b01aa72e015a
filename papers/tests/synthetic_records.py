"""Records of a few experiments: claims that hold, one that fails, one undecided, one not run."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geq.data.corruption.corruption_registry import corruption_names
from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Arm, Experiment, ExperimentScale, Metric
from geq_papers.experiment.record import Record, record_path

SMALL = {"small": ExperimentScale({}, "48k parameters, 10 epochs, all of CIFAR-10.", seeds=5)}
ACCURACY = Metric("test_accuracy", "test accuracy", digits=1)
GAMMAS = {"gamma-0.1": 0.1, "gamma-0.25": 0.25, "gamma-0.5": 0.5, "gamma-1": 1.0, "gamma-2": 2.0}


def arm(label: str, control: bool = False) -> Arm:
    return Arm(label, {"small": {}}, control=control)


def experiments() -> dict[str, Experiment]:
    table = Experiment(
        name="geq-table-1a",
        title="CIFAR-10, all models of one size",
        source="GEQ table 1a",
        opening="geq reproduce geq-table-1a --scale small\n\n25 runs of 9 minutes.\nThe paper: GEQ 95.6.",
        arms={
            "geq": arm("GEQ"),
            "geq-control": arm("GEQ, γ = 0", True),
            "mopteq": arm("MOptEq"),
            "mdeq": arm("MDEQ"),
            "resnet": arm("ResNet"),
        },
        metrics=(ACCURACY, Metric("ece", "calibration error", unit="", digits=3, lower_is_better=True)),
        claims=(
            Claim("GEQ is more accurate than MOptEq on CIFAR-10", "geq", "mopteq", "test_accuracy", 1.0),
            Claim(
                "GEQ is more accurate than its γ = 0 control",
                "geq",
                "geq-control",
                "test_accuracy",
                ours=True,
            ),
            Claim(
                "GEQ is more accurate than a ResNet of the same size", "geq", "resnet", "test_accuracy", 2.1
            ),
        ),
        published={
            "geq": {"test_accuracy": (95.6, 0.2)},
            "mopteq": {"test_accuracy": (94.6, 0.2)},
            "mdeq": {"test_accuracy": (94.2, 0.3)},
            "resnet": {"test_accuracy": (93.5, 0.2)},
        },
        scales=SMALL,
    )
    figure = Experiment(
        name="geq-figure-2",
        title="CIFAR-10-C, accuracy under 19 corruptions",
        source="GEQ figure 2",
        opening="geq reproduce geq-figure-2 --scale small",
        arms={"geq": arm("GEQ"), "mopteq": arm("MOptEq"), "resnet": arm("ResNet")},
        metrics=(ACCURACY, Metric("corruption_accuracy", "accuracy under corruption", digits=1)),
        claims=(
            Claim("GEQ loses less under corruption than MOptEq", "geq", "mopteq", "corruption_accuracy"),
        ),
        scales=SMALL,
    )
    ablation = Experiment(
        name="kerdeq-gamma",
        title="Ablation of γ on CIFAR-10",
        source="KerDEQ figure 3",
        opening="geq reproduce kerdeq-gamma --scale small",
        arms={name: arm(f"KerDEQ, γ = {value:g}") for name, value in GAMMAS.items()},
        metrics=(ACCURACY,),
        claims=(Claim("γ = 0.5 is better than γ = 2", "gamma-0.5", "gamma-2", "test_accuracy"),),
        scales=SMALL,
        axes={"γ": GAMMAS},
    )
    absent = Experiment(
        name="opteq-table-10",
        title="Cityscapes",
        source="OptEq table 10",
        opening="geq reproduce opteq-table-10 --scale paper",
        arms={"opteq": arm("Deep OptEq"), "fcn": arm("FCN")},
        metrics=(Metric("miou", "mIoU"),),
        claims=(Claim("Deep OptEq segments better than FCN", "opteq", "fcn", "miou", 3.0),),
        published={"opteq": {"miou": (74.47, None)}, "fcn": {"miou": (71.47, None)}},
        scales=SMALL,
    )
    return {one.name: one for one in (table, figure, ablation, absent)}


def record(
    experiment: str, name: str, seed: int, level: float, changes: Mapping[str, Any] | None = None
) -> Record:
    """A run that ends near ``level`` %."""
    noise = random.Random(f"{experiment}/{name}/{seed}")
    reached = level + noise.gauss(0, 0.4)
    epochs = [
        {
            "epoch": epoch,
            "train_loss": 2.1 * math.exp(-epoch / 6) + 0.3 + noise.uniform(0, 0.06),
            "validation_accuracy": reached - 35 * math.exp(-epoch / 2.5) + noise.gauss(0, 0.6),
            "seconds": 52.0 + noise.uniform(0, 2),
        }
        for epoch in range(1, 11)
    ]
    values: dict[str, Any] = {
        "experiment": experiment,
        "scale": "small",
        "arm": name,
        "seed": seed,
        "config_hash": f"{abs(hash_of(experiment + name)):012x}"[:12],
        "config": {"model": name, "epochs": 10},
        "commit": "14b5d2d9c0ffee",
        "versions": {"geq": "0.1.0", "torch": "2.13.0", "python": "3.12.3"},
        "machine": {"cpu": "x86_64", "cores": 2, "device": "cpu"},
        "epochs": epochs,
        "metrics": {
            "test_accuracy": reached,
            "parameters": 48_000 + len(name) * 137,
            "ece": 0.03 + noise.uniform(0, 0.02),
        },
        "solver": {"evaluations": 5 + noise.uniform(0, 1), "residual": 6e-4, "converged": 0.998},
        "cpu_seconds": 530.0 + noise.uniform(0, 40),
        "wall_seconds": 540.0,
        "finished": f"2026-11-{10 + seed:02d}T01:00:00Z",
    }
    return Record(**{**values, **(changes or {})})


def hash_of(text: str) -> int:
    return sum(ord(letter) * 31**position for position, letter in enumerate(text[:10]))


def records() -> list[Record]:
    """Five seeds of everything that was run."""
    found = []
    levels = {"geq": 70.6, "geq-control": 70.4, "mopteq": 68.1, "mdeq": 66.2, "resnet": 72.3}
    for seed in range(5):
        for name, level in levels.items():
            one = record("geq-table-1a", name, seed, level)
            found.append(
                one if name != "resnet" else record("geq-table-1a", name, seed, level, {"solver": {}})
            )
        for name, level in (("geq", 70.6), ("mopteq", 68.1), ("resnet", 72.3)):
            one = record("geq-figure-2", name, seed, level)
            noise = random.Random(f"{name}/{seed}/corruption")
            under = {
                f"corruption/{kind}": level - 6 - 2 * (place % 7) + noise.gauss(0, 0.7)
                for place, kind in enumerate(corruption_names())
            }
            found.append(
                record(
                    "geq-figure-2",
                    name,
                    seed,
                    level,
                    {
                        "metrics": one.metrics
                        | under
                        | {"corruption_accuracy": sum(under.values()) / len(under)},
                    },
                )
            )
    for seed in range(2):
        for name, value in GAMMAS.items():
            found.append(record("kerdeq-gamma", name, seed, 69 - 2 * math.log2(value / 0.5) ** 2 / 2))
    return found


def write(folder: Path, found: list[Record]) -> Path:
    for one in found:
        path = record_path(folder, one.scale, one.experiment)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(one.line() + "\n")
    return folder
