"""Restoring damaged images: where the Gaussian's hidden problem is the task."""

from __future__ import annotations

from typing import Any

from geq_papers.experiment.experiment import Arm, Experiment, ExperimentScale, Metric
from geq_papers.experiment.geq_arms import PARAMETERS
from geq_papers.experiment.restoration_measurement import Restoration
from geq_papers.experiment.study_arms import BETA, CPU, EVALUATIONS, FEEDBACK, TRAIN_LOSS, better
from geq_papers.experiment.training_recipe import ONE_CORE

SEEDS, FIRST_SEED = 5, 50
"""No other experiment has these."""
TRAIN_IMAGES, TEST_IMAGES, EPOCHS = 7_000, 1_000, 4

PSNR = Metric("test_psnr", "PSNR", "dB")
SSIM = Metric("test_ssim", "SSIM", "", 3)
DAMAGED = Metric("damaged_psnr", "before", "dB")
FOUND = Metric("beta_auroc", "AUROC of β, first", "%", 1)
FOUND_LAST = Metric("beta_auroc_last", "AUROC of β, last", "%", 1)

OPENING = """Restoring CIFAR-10 images: {title}.

    geq reproduce {name} --scale small

Time: 1 to 6 minutes of one core for a run at scale small, 20 minutes for a seed.

Six networks learn to take the damage away: residual blocks x + Conv(z*) with the patch Gaussian on single
pixels and a learned γ, with γ = 0, and with the linear kernel; the same blocks with two convolutions instead
of the equilibrium; a DnCNN of the same number of parameters, and a wider and deeper one whose training takes
the CPU time of γ = 0. The rest is alike: AdamW with a learning rate of 0.002, absolute error, 7,000 images, 4
epochs, 1,000 test images, which are seen once. The claims, the seeds and all sizes were committed before the
first run; ``decisions/0013-deciding-the-papers-claims.md`` is the protocol. β is that of the equilibrium
which sees the image first.
"""

RECIPE: dict[str, Any] = {
    **ONE_CORE,
    "augment": "none",
    "batch_size": 16,
    "optimizer": "adamw",
    "learning_rate": 0.002,
    "weight_decay": 0.0,
    "clip": 5.0,
    "schedule": "cosine",
    "warmup_epochs": 0.1,
}

DAMAGES = {
    "impulses": "a fifth of the pixels at random colours",
    "salt_and_pepper": "a fifth of the pixels white or black",
    "blocks": "a fifth of the 4×4 blocks covered",
    "noise": "Gaussian noise of σ = 25/255",
}
"""Option of the dataset -> what it says in the title. The last has no outliers: here it should not help."""


def arm(
    label: str, model: str, small: tuple[str, ...] = (), smoke: tuple[str, ...] = (), control: bool = False
) -> Arm:
    """Return an arm by its changes of the network, which differ where a size does."""
    return Arm(
        label,
        {
            "smoke": {"model": f"{model}_tiny", "override": list(smoke or small)},
            "small": {"model": f"{model}_small", "override": list(small)},
        },
        control=control,
    )


def arms() -> dict[str, Arm]:
    plain = ("kernel=convolutions",)
    return {
        "dncnn-time": arm("DnCNN, CPU time of γ = 0", "dncnn", ("channels=32", "depth=17"), ("channels=16",)),
        "dncnn": arm("DnCNN, same parameters", "dncnn"),
        "convolutions": arm("plain convolutions", "restorer", plain),
        "linear": arm(
            "linear (OptEq)",
            "restorer",
            ("kernel=linear", "mid_channels=9"),
            ("kernel=linear", "mid_channels=4"),
        ),
        "control": arm("GEQ, γ = 0", "restorer", ("gamma=zero",), control=True),
        "geq": arm("GEQ", "restorer"),
    }


def restoration(damage: str) -> Experiment:
    """Return the experiment of one damage."""
    name, words = f"study-restoration-{damage.replace('_', '-')}", DAMAGES[damage]
    outliers = damage != "noise"
    small = {
        **RECIPE,
        "data": "cifar10",
        "data_override": [f"damage={damage}", f"test_subset={TEST_IMAGES}"],
        "train_size": TRAIN_IMAGES,
        "epochs": EPOCHS,
        # The test images are seen once, after the last epoch: so none are looked at before.
        "evaluate_every": EPOCHS + 1,
    }
    smoke = {
        **RECIPE,
        "data": "digits",
        "data_override": [f"damage={damage}"],
        "train_size": 192,
        "epochs": 2,
        "evaluate_every": 3,
    }
    found = (
        (better("β is lower at the damaged pixels than by chance", "geq", "control", FOUND, seeds=SEEDS),)
        if outliers
        else ()
    )
    return Experiment(
        name=name,
        title=f"Restoring images, {words}",
        source="study 7",
        opening=OPENING.format(title=words, name=name),
        arms=arms(),
        metrics=(
            PSNR,
            SSIM,
            DAMAGED,
            FEEDBACK,
            *((FOUND, FOUND_LAST) if outliers else ()),
            BETA,
            EVALUATIONS,
            CPU,
            PARAMETERS,
            Metric(TRAIN_LOSS.key, TRAIN_LOSS.label, "", 4, lower_is_better=True),
        ),
        claims=(
            better("The Gaussian restores better than γ = 0", "geq", "control", PSNR, seeds=SEEDS),
            better(
                "γ = 0 restores better than a DnCNN of the same parameters",
                "control",
                "dncnn",
                PSNR,
                seeds=SEEDS,
            ),
            better(
                "γ = 0 restores better than a DnCNN of the same CPU time",
                "control",
                "dncnn-time",
                PSNR,
                seeds=SEEDS,
            ),
            *found,
        ),
        scales={
            "smoke": ExperimentScale(
                smoke,
                "digits, two epochs: shows that it runs, nothing else",
                (Restoration(images=60),),
                seeds=1,
            ),
            "small": ExperimentScale(
                small,
                f"{TRAIN_IMAGES:,} training images of cifar10, {EPOCHS} epochs, 24 thousand parameters, "
                f"{TEST_IMAGES:,} test images",
                (Restoration(),),
                seeds=SEEDS,
                first_seed=FIRST_SEED,
            ),
        },
    )


EXPERIMENTS = tuple(restoration(damage) for damage in DAMAGES)
