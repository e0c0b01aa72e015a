"""GEQ, table 2 (a): ImageNette.

    geq reproduce geq-table-2a --scale small

Time: about 10 minutes of one core for a run at scale small (images of 64×64); at scale paper about a week
of one GPU for a seed of all arms. Needs ImageNette: see 'geq data fetch imagenette'.

The paper reports (accuracy in %, mean ± spread): ResNet-18 92.3 ± 0.1, ResNet-50 93.0 ± 0.2, MDEQ 91.5 ±
0.2, MOptEq 92.4 ± 0.2, GEQ 92.9 ± 0.2 with 6M and 93.2 ± 0.1 with 13M parameters. The MDEQ of this size is
not described there and has no run here.
"""

from __future__ import annotations

from geq_papers.experiment.geq_arms import accuracy_table, imagenet_arms
from geq_papers.experiment.training_recipe import paper, small

EXPERIMENT = accuracy_table(
    "2a",
    "ImageNette",
    __doc__,
    imagenet_arms("imagenette", "paper/mopteq_imagenette_10m"),
    published={
        "resnet": (92.3, 0.1),
        "resnet50": (93.0, 0.2),
        "mdeq": (91.5, 0.2),
        "mopteq": (92.4, 0.2),
        "geq_6m": (92.9, 0.2),
        "geq": (93.2, 0.1),
    },
    scales={
        "small": small("imagenette", 8_000, 6, note="64×64", data_override=["image_size=64"]),
        "paper": paper("ImageNette at 256×256, 100 epochs, one GPU for each run"),
    },
)
