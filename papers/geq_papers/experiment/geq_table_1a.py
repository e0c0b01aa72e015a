"""GEQ, table 1 (a): CIFAR-10.

    geq reproduce geq-table-1a --scale small

Time: 6 to 8 minutes of one core for a run at scale small, 40 minutes for a seed of all arms; at scale
paper some days of one GPU for a seed.

The paper reports (accuracy in %, mean ± spread): ResNet-18 93.5 ± 0.2, ResNet-50 95.2 ± 0.2, MDEQ 94.2 ±
0.3, MOptEq 94.6 ± 0.2, GEQ 94.8 ± 0.1 with 5M and 95.6 ± 0.2 with 8M parameters.
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
    name="geq-table-1a",
    title="Accuracy on CIFAR-10",
    source="GEQ table 1a",
    opening=__doc__ or "",
    arms={
        "resnet": resnet18("paper/resnet18_cifar10"),
        "resnet50": Arm("ResNet-50", sizes(None, None, "paper/resnet50_cifar10")),
        "mdeq": mdeq("cifar10", "paper/mdeq_cifar10_10m"),
        "mopteq": mopteq("paper/mopteq_cifar10_8m"),
        "control": control("paper/geq_cifar10_8m"),
        "geq_5m": Arm("GEQ (5M)", sizes(None, None, "paper/geq_cifar10_5m")),
        "geq": geq("paper/geq_cifar10_8m"),
    },
    metrics=(ACCURACY, PARAMETERS),
    published={
        "resnet": {KEY: (93.5, 0.2)},
        "resnet50": {KEY: (95.2, 0.2)},
        "mdeq": {KEY: (94.2, 0.3)},
        "mopteq": {KEY: (94.6, 0.2)},
        "geq_5m": {KEY: (94.8, 0.1)},
        "geq": {KEY: (95.6, 0.2)},
    },
    claims=(
        Claim("GEQ is better than MOptEq", "geq", "mopteq", KEY, 1.0),
        Claim("GEQ is better than MDEQ", "geq", "mdeq", KEY, 1.4),
        Claim("GEQ is better than ResNet-18", "geq", "resnet", KEY, 2.1),
        Claim("GEQ is better than ResNet-50", "geq", "resnet50", KEY, 0.4),
        against_control(),
    ),
    scales={
        "smoke": smoke(),
        "small": small("cifar10", 20_000, 8),
        "paper": paper("CIFAR-10, 200 epochs, one GPU for each run"),
    },
)
