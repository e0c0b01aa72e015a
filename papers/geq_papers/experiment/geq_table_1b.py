"""GEQ, table 1 (b): CIFAR-100.

    geq reproduce geq-table-1b --scale small

Time: 6 to 8 minutes of one core for a run at scale small, 40 minutes for a seed of all arms; at scale
paper some days of one GPU for a seed.

The paper reports (accuracy in %, mean ± spread): ResNet-18 74.5 ± 0.2, ResNet-50 77.9 ± 0.1, MDEQ 74.7 ±
0.3, MOptEq 75.6 ± 0.2, GEQ 76.4 ± 0.3 with 5M and 78.2 ± 0.2 with 8M parameters.
"""

from __future__ import annotations

from geq_papers.experiment.geq_arms import accuracy_table, cifar_arms
from geq_papers.experiment.training_recipe import paper, small

EXPERIMENT = accuracy_table(
    "1b",
    "CIFAR-100",
    __doc__,
    cifar_arms("cifar100"),
    published={
        "resnet": (74.5, 0.2),
        "resnet50": (77.9, 0.1),
        "mdeq": (74.7, 0.3),
        "mopteq": (75.6, 0.2),
        "geq_5m": (76.4, 0.3),
        "geq": (78.2, 0.2),
    },
    scales={
        "small": small("cifar100", 20_000, 8),
        "paper": paper("CIFAR-100, 200 epochs, one GPU for each run"),
    },
)
