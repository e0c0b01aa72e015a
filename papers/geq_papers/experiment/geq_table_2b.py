"""GEQ, table 2 (b): ImageNet-100.

    geq reproduce geq-table-2b --scale small

Time: about 10 minutes of one core for a run at scale small (images of 64×64); at scale paper some weeks of
one GPU for a seed of all arms. Needs ImageNet-100: see 'geq data fetch imagenet100'.

The paper reports (accuracy in %, mean ± spread): ResNet-18 80.9 ± 0.3, ResNet-50 81.7 ± 0.2, MDEQ 81.3 ±
0.2, MOptEq 81.5 ± 0.4, GEQ 82.2 ± 0.2 with 6M and 83.9 ± 0.3 with 13M parameters. The MDEQ of this size is
not described there and has no run here.
"""

from __future__ import annotations

from geq_papers.experiment.arm import ACCURACY, PARAMETERS, against_control, imagenet_arms
from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Experiment
from geq_papers.experiment.recipe import paper, small, smoke

KEY = ACCURACY.key

EXPERIMENT = Experiment(
    name="geq-table-2b",
    title="Accuracy on ImageNet-100",
    source="GEQ table 2b",
    opening=__doc__ or "",
    arms=imagenet_arms(
        "paper/geq_imagenet100_13m",
        mopteq_preset="paper/mopteq_imagenet100_13m",
        small_preset="paper/geq_imagenet100_6m",
    ),
    metrics=(ACCURACY, PARAMETERS),
    published={
        "resnet": {KEY: (80.9, 0.3)},
        "resnet50": {KEY: (81.7, 0.2)},
        "mdeq": {KEY: (81.3, 0.2)},
        "mopteq": {KEY: (81.5, 0.4)},
        "geq_6m": {KEY: (82.2, 0.2)},
        "geq": {KEY: (83.9, 0.3)},
    },
    claims=(
        Claim("GEQ is better than MOptEq", "geq", "mopteq", KEY, 2.4),
        Claim("GEQ is better than ResNet-18", "geq", "resnet", KEY, 3.0),
        Claim("GEQ is better than ResNet-50", "geq", "resnet50", KEY, 2.2),
        against_control(),
    ),
    scales={
        "smoke": smoke(),
        "small": small("imagenet100", 8_500, 5, note="64×64", data_override=["image_size=64"]),
        "paper": paper("ImageNet-100 at 256×256, 100 epochs, one GPU for each run"),
    },
)
