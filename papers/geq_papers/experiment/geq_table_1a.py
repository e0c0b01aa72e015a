"""GEQ, table 1 (a): CIFAR-10.

    geq reproduce geq-table-1a --scale small

Time: 6 to 8 minutes of one core for a run at scale small, 40 minutes for a seed of all arms; at scale
paper some days of one GPU for a seed.

The paper reports (accuracy in %, mean ± spread): ResNet-18 93.5 ± 0.2, ResNet-50 95.2 ± 0.2, MDEQ 94.2 ±
0.3, MOptEq 94.6 ± 0.2, GEQ 94.8 ± 0.1 with 5M and 95.6 ± 0.2 with 8M parameters.
"""

from __future__ import annotations

from geq_papers.experiment.geq_arms import accuracy_table, cifar_arms
from geq_papers.experiment.training_recipe import paper, small

EXPERIMENT = accuracy_table(
    "1a",
    "CIFAR-10",
    __doc__,
    cifar_arms("cifar10"),
    published={
        "resnet": (93.5, 0.2),
        "resnet50": (95.2, 0.2),
        "mdeq": (94.2, 0.3),
        "mopteq": (94.6, 0.2),
        "geq_5m": (94.8, 0.1),
        "geq": (95.6, 0.2),
    },
    scales={
        "small": small("cifar10", 20_000, 8),
        "paper": paper("CIFAR-10, 200 epochs, one GPU for each run"),
    },
)
