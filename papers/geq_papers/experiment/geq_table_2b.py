"""GEQ, table 2 (b): ImageNet-100.

    geq reproduce geq-table-2b --scale small

Time: about 10 minutes of one core for a run at scale small (images of 64×64); at scale paper some weeks of
one GPU for a seed of all arms. Needs ImageNet-100: see 'geq data fetch imagenet100'.

The paper reports (accuracy in %, mean ± spread): ResNet-18 80.9 ± 0.3, ResNet-50 81.7 ± 0.2, MDEQ 81.3 ±
0.2, MOptEq 81.5 ± 0.4, GEQ 82.2 ± 0.2 with 6M and 83.9 ± 0.3 with 13M parameters. The MDEQ of this size is
not described there and has no run here.
"""

from __future__ import annotations

from geq_papers.experiment.geq_arms import accuracy_table, imagenet_arms
from geq_papers.experiment.training_recipe import paper, small

EXPERIMENT = accuracy_table(
    "2b",
    "ImageNet-100",
    __doc__,
    imagenet_arms("imagenet100", "paper/mopteq_imagenet100_13m"),
    published={
        "resnet": (80.9, 0.3),
        "resnet50": (81.7, 0.2),
        "mdeq": (81.3, 0.2),
        "mopteq": (81.5, 0.4),
        "geq_6m": (82.2, 0.2),
        "geq": (83.9, 0.3),
    },
    scales={
        "small": small("imagenet100", 8_500, 5, note="64×64", data_override=["image_size=64"]),
        "paper": paper("ImageNet-100 at 256×256, 100 epochs, one GPU for each run"),
    },
)
