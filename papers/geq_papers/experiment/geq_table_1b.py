"""GEQ, table 1 (b): CIFAR-100.

    geq reproduce geq-table-1b --scale small

Time: 6 to 8 minutes of one core for a run at scale small, 40 minutes for a seed of all arms; at scale
paper some days of one GPU for a seed.

The paper reports (accuracy in %, mean ± spread): ResNet-18 74.5 ± 0.2, ResNet-50 77.9 ± 0.1, MDEQ 74.7 ±
0.3, MOptEq 75.6 ± 0.2, GEQ 76.4 ± 0.3 with 5M and 78.2 ± 0.2 with 8M parameters.
"""

from __future__ import annotations

from geq_papers.experiment.arm import (
    ACCURACY,
    PARAMETERS,
    against_control,
    control,
    geq,
    mdeq,
    mopteq,
    resnet18,
)
from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Arm, Experiment
from geq_papers.experiment.recipe import paper, sizes, small, smoke

KEY = ACCURACY.key

EXPERIMENT = Experiment(
    name="geq-table-1b",
    title="Accuracy on CIFAR-100",
    source="GEQ table 1b",
    opening=__doc__ or "",
    arms={
        "resnet": resnet18("paper/resnet18_cifar100"),
        "resnet50": Arm("ResNet-50", sizes(None, None, "paper/resnet50_cifar100")),
        "mdeq": mdeq("cifar100", "paper/mdeq_cifar100_10m"),
        "mopteq": mopteq("paper/mopteq_cifar100_8m"),
        "control": control("paper/geq_cifar100_8m"),
        "geq_5m": Arm("GEQ (5M)", sizes(None, None, "paper/geq_cifar100_5m")),
        "geq": geq("paper/geq_cifar100_8m"),
    },
    metrics=(ACCURACY, PARAMETERS),
    published={
        "resnet": {KEY: (74.5, 0.2)},
        "resnet50": {KEY: (77.9, 0.1)},
        "mdeq": {KEY: (74.7, 0.3)},
        "mopteq": {KEY: (75.6, 0.2)},
        "geq_5m": {KEY: (76.4, 0.3)},
        "geq": {KEY: (78.2, 0.2)},
    },
    claims=(
        Claim("GEQ is better than MOptEq", "geq", "mopteq", KEY, 2.6),
        Claim("GEQ is better than MDEQ", "geq", "mdeq", KEY, 3.5),
        Claim("GEQ is better than ResNet-18", "geq", "resnet", KEY, 3.7),
        Claim("GEQ is better than ResNet-50", "geq", "resnet50", KEY, 0.3),
        against_control(),
    ),
    scales={
        "smoke": smoke(),
        "small": small("cifar100", 20_000, 8),
        "paper": paper("CIFAR-100, 200 epochs, one GPU for each run"),
    },
)
