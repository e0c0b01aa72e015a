"""GEQ, figure 4: the channels c_s and the side p of a patch, on CIFAR-100.

    geq reproduce geq-figure-4 --scale small

Time: about 2 minutes of one core for a run at scale small; at scale paper a week of one GPU for a seed.

The paper shows curves without numbers: c_s = 8 and p = 2 are best, larger and smaller values are worse.
"""

from __future__ import annotations

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Arm, Experiment
from geq_papers.experiment.geq_arms import ACCURACY, PARAMETERS, against_control, control
from geq_papers.experiment.training_recipe import paper, small, smoke

KEY = ACCURACY.key
PRESET = "paper/geq_cifar100_8m"


def patches(split: int, side: int) -> Arm:
    chosen = [f"channel_split={split}", f"patch={side}"]
    return Arm(
        f"c_s = {split}, p = {side}",
        {
            **({"smoke": {"model": "geq_tiny", "override": chosen}} if split <= 16 else {}),
            "small": {"model": "geq_small", "override": chosen},
            "paper": {"preset": PRESET, "override": ["gamma=paper", "gradient=phantom", *chosen]},
        },
    )


SPLITS = {"c2": 2, "c4": 4, "geq": 8}
SIDES = {"p1": 1, "geq": 2, "p4": 4}

EXPERIMENT = Experiment(
    name="geq-figure-4",
    title="Channels and side of a patch on CIFAR-100",
    source="GEQ figure 4",
    opening=__doc__ or "",
    arms={
        "c2": patches(2, 2),
        "c4": patches(4, 2),
        "geq": patches(8, 2),
        "c24": Arm(
            "c_s = 24 (small), 16 (paper), p = 2",
            {"small": patches(24, 2).options["small"], "paper": patches(16, 2).options["paper"]},
        ),
        "p1": patches(8, 1),
        "p4": patches(8, 4),
        "control": control(PRESET),
    },
    metrics=(ACCURACY, PARAMETERS),
    claims=(
        Claim("c_s = 8 is better than 2", "geq", "c2", KEY),
        Claim("c_s = 8 is better than 4", "geq", "c4", KEY),
        Claim("c_s = 8 is better than a larger one", "geq", "c24", KEY),
        Claim("p = 2 is better than 1", "geq", "p1", KEY),
        Claim("p = 2 is better than 4", "geq", "p4", KEY),
        against_control(),
    ),
    scales={
        "smoke": smoke(),
        "small": small("cifar100", 10_000, 5),
        "paper": paper("CIFAR-100, 200 epochs, one GPU for each run"),
    },
    axes={"c_s": {**SPLITS, "c24": 24}, "p": SIDES},
)
