"""Networks trained to the end: all images, a full schedule, three paired seeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.equilibrium_measurement import Equilibria
from geq_papers.experiment.experiment import Arm, Experiment, ExperimentScale, Measurement, Metric
from geq_papers.experiment.geq_arms import ACCURACY, PARAMETERS, against_control, mopteq
from geq_papers.experiment.geq_table_1a import EXPERIMENT as TABLE_1A
from geq_papers.experiment.geq_table_1b import EXPERIMENT as TABLE_1B
from geq_papers.experiment.measurement import Calibration, Corruption
from geq_papers.experiment.study_arms import (
    CPU,
    EVALUATIONS,
    FEEDBACK,
    PAPER,
    STRONG,
    TRAIN_LOSS,
    better,
    four_networks,
    geq_arm,
    small_only,
)
from geq_papers.experiment.training_recipe import SMALL, smoke

SEEDS, FIRST_SEED = 3, 40
"""No other experiment has these."""
EPOCHS, LONGER = 20, 40
CORRUPTED = 500
"""Test images that each of the 19 corruptions is measured on."""

MEAN = Metric("corruption_accuracy", "mean of 19")
ECE = Metric("ece", "ECE", lower_is_better=True)

OPENING = """{title}, trained to the end: {what}.

    geq reproduce {name} --scale small

Time: {time}

All 50,000 images, the recipe of the networks that come with geq (geq/training/preset/ship), about 50 thousand
parameters. The test images are used once for each network, after its last epoch, clean and corrupted. A run
that is stopped loses at most an epoch. The claims and the seeds were committed before the first run;
``decisions/0013-deciding-the-papers-claims.md`` is the protocol.
"""


def whole(data: str) -> dict[str, Any]:
    """The recipe of preset/ship, on all training images."""
    return {**SMALL, "data": data, "epochs": EPOCHS, "evaluate_every": EPOCHS}


def measured(corrupted: int, calibrated: int | None = None, fitted: int = 2000) -> tuple[Measurement, ...]:
    return (
        Equilibria(),
        Calibration(limit=calibrated, train_images=fitted),
        Corruption(limit=corrupted),
    )


def all_arms() -> dict[str, Arm]:
    """Return the arms, of which CIFAR-100 has the first four."""
    cascades = four_networks()
    return {
        "geq-papers": geq_arm("GEQ, papers' shape", model=PAPER),
        "mopteq": mopteq(None),
        "geq": replace(cascades["geq"], label="GEQ cascade"),
        "linear": replace(cascades["linear"], label="linear cascade"),
        "control": replace(cascades["control"], label="GEQ cascade, γ = 0"),
        "resnet": cascades["resnet"],
    }


OTHERS = {"linear": "the linear cascade", "control": "γ = 0", "resnet": "a ResNet"}


def claims(arms: dict[str, Arm], published: float) -> tuple[Claim, ...]:
    """The papers' GEQ over MOptEq, and the GEQ cascade over each of the others, clean and corrupted."""
    text = "Trained to the end, the papers' GEQ is better than MOptEq"
    return (
        Claim(text, "geq-papers", "mopteq", ACCURACY.key, published, seeds=SEEDS),
        *(
            better(f"{when} the GEQ cascade is better than {words}", "geq", arm, metric, seeds=SEEDS)
            for when, metric in (("Trained to the end,", ACCURACY), ("So trained, under corruption", MEAN))
            for arm, words in OTHERS.items()
            if arm in arms
        ),
    )


def full(table: Experiment, data: str, title: str, arms: dict[str, Arm], time: str) -> Experiment:
    """Return the comparison on one dataset.

    Args:
        table: Experiment with the published figures.
        data: Name of the dataset.
        title: Name of the dataset, as it is written.
        arms: Networks.
        time: What it takes.
    """
    name = f"study-full-{data}"
    published = {"geq-papers": table.published["geq"], "mopteq": table.published["mopteq"]}
    (difference,) = (c.published_difference for c in table.claims if c.worse_arm == "mopteq")
    assert difference is not None
    return Experiment(
        name=name,
        title=f"{title}, trained to the end",
        source=f"study 8, {title}",
        opening=OPENING.format(
            title=title, what=f"{len(arms)} networks, {EPOCHS} epochs, three seeds", name=name, time=time
        ),
        arms=arms,
        metrics=(ACCURACY, MEAN, ECE, TRAIN_LOSS, FEEDBACK, EVALUATIONS, CPU, PARAMETERS),
        published=published,
        claims=claims(arms, difference),
        scales={
            "smoke": smoke(*measured(20, 100, 100)),
            "small": ExperimentScale(
                whole(data),
                f"all 50,000 training images of {data}, {EPOCHS} epochs, about 50 thousand parameters, "
                f"{CORRUPTED} test images corrupted",
                measured(CORRUPTED),
                seeds=SEEDS,
                first_seed=FIRST_SEED,
            ),
        },
    )


def length() -> Experiment:
    """Return the check that twice the epochs do not decide the order."""
    arms = {name: arm for name, arm in all_arms().items() if name in ("geq", *OTHERS)}
    longer = geq_arm(f"GEQ cascade, {LONGER} epochs", model=STRONG, epochs=LONGER, evaluate_every=LONGER)
    return Experiment(
        name="study-full-length",
        title=f"CIFAR-10, {LONGER} epochs instead of {EPOCHS}",
        source="study 8, length",
        opening=OPENING.format(
            title="CIFAR-10",
            what=f"one network with {LONGER} epochs and one seed, beside those with {EPOCHS}",
            name="study-full-length",
            time="two hours of one core; the other runs are those of study-full-cifar10 in the same --runs.",
        ),
        arms={**arms, "geq-long": small_only(longer)},
        metrics=(ACCURACY, TRAIN_LOSS, CPU),
        claims=(
            better(f"{LONGER} epochs are better than {EPOCHS}", "geq-long", "geq", ACCURACY, seeds=SEEDS),
            replace(against_control(), seeds=SEEDS),
        ),
        scales={
            "smoke": smoke(),
            "small": ExperimentScale(
                whole("cifar10"),
                f"all 50,000 training images of cifar10, {EPOCHS} epochs or {LONGER}, one seed: it shows an "
                "order and decides nothing",
                seeds=1,
                first_seed=FIRST_SEED,
            ),
        },
    )


CIFAR10 = full(TABLE_1A, "cifar10", "CIFAR-10", all_arms(), "about an hour of one core for a run.")
CIFAR100 = full(
    TABLE_1B,
    "cifar100",
    "CIFAR-100",
    {name: arm for name, arm in all_arms().items() if name not in ("control", "resnet")},
    "about an hour of one core for a run.",
)
LENGTH = length()
