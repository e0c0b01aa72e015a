"""GEQ, table 2 (a): ImageNette.

    geq reproduce geq-table-2a --scale small

Time: about 10 minutes of one core for a run at scale small (images of 64×64); at scale paper about a week
of one GPU for a seed of all arms. Needs ImageNette: see 'geq data fetch imagenette'.

The paper reports (accuracy in %, mean ± spread): ResNet-18 92.3 ± 0.1, ResNet-50 93.0 ± 0.2, MDEQ 91.5 ±
0.2, MOptEq 92.4 ± 0.2, GEQ 92.9 ± 0.2 with 6M and 93.2 ± 0.1 with 13M parameters. The MDEQ of this size is
not described there and has no run here.
"""

from __future__ import annotations

from geq_papers.experiment.arm import ACCURACY, PARAMETERS, against_control, imagenet_arms
from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Experiment
from geq_papers.experiment.recipe import paper, small, smoke

KEY = ACCURACY.key

EXPERIMENT = Experiment(
    name="geq-table-2a",
    title="Accuracy on ImageNette",
    source="GEQ table 2a",
    opening=__doc__ or "",
    arms=imagenet_arms(
        "paper/geq_imagenette_13m",
        mopteq_preset="paper/mopteq_imagenette_10m",
        small_preset="paper/geq_imagenette_6m",
    ),
    metrics=(ACCURACY, PARAMETERS),
    published={
        "resnet": {KEY: (92.3, 0.1)},
        "resnet50": {KEY: (93.0, 0.2)},
        "mdeq": {KEY: (91.5, 0.2)},
        "mopteq": {KEY: (92.4, 0.2)},
        "geq_6m": {KEY: (92.9, 0.2)},
        "geq": {KEY: (93.2, 0.1)},
    },
    claims=(
        Claim("GEQ is better than MOptEq", "geq", "mopteq", KEY, 0.8),
        Claim("GEQ is better than ResNet-18", "geq", "resnet", KEY, 0.9),
        Claim("GEQ is better than ResNet-50", "geq", "resnet50", KEY, 0.2),
        against_control(),
    ),
    scales={
        "smoke": smoke(),
        "small": small("imagenette", 8_000, 6, note="64×64", data_override=["image_size=64"]),
        "paper": paper("ImageNette at 256×256, 100 epochs, one GPU for each run"),
    },
)
