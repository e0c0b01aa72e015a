"""GEQ, figure 2: accuracy under the 19 corruptions of CIFAR-10-C.

    geq reproduce geq-figure-2 --scale small

Time: about 3 minutes of one core for the corruptions of a run at scale small; the trainings are those of
geq-table-1a (6 to 8 minutes each).

The paper shows bars without numbers: GEQ stands above MOptEq and ResNet under most corruptions. Our claim
is on the mean of all 19 at five severities.
"""

from __future__ import annotations

from geq.data.corruption import corruption_names
from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Experiment, Metric
from geq_papers.experiment.geq_arms import against_control, control, geq, mopteq, resnet18
from geq_papers.experiment.measurement import Corruption
from geq_papers.experiment.training_recipe import paper, small, smoke

MEAN = Metric("corruption_accuracy", "mean of 19")
NOISE = Metric("corruption/impulse_noise", "impulse noise")

EXPERIMENT = Experiment(
    name="geq-figure-2",
    title="Accuracy under corruption on CIFAR-10",
    source="GEQ figure 2",
    opening=__doc__ or "",
    arms={
        "resnet": resnet18("paper/resnet18_cifar10"),
        "mopteq": mopteq("paper/mopteq_cifar10_8m"),
        "control": control("paper/geq_cifar10_8m"),
        "geq": geq("paper/geq_cifar10_8m", "GEQ"),
    },
    metrics=(
        Metric("test_accuracy", "clean"),
        MEAN,
        Metric("corruption_loss", "lost", "points", lower_is_better=True),
        *(
            Metric(f"corruption/{name}", name.replace("_", " "))
            for name in ("impulse_noise", "spatter", "gaussian_noise", "fog")
            if name in corruption_names()
        ),
    ),
    claims=(
        Claim("GEQ is better than MOptEq under corruption", "geq", "mopteq", MEAN.key),
        Claim("GEQ is better than ResNet under corruption", "geq", "resnet", MEAN.key),
        against_control(MEAN),
        Claim(
            "Outliers are where the Gaussian pays: impulse noise, against γ = 0",
            "geq",
            "control",
            NOISE.key,
            ours=True,
        ),
    ),
    scales={
        "smoke": smoke(Corruption(limit=20)),
        "small": small("cifar10", 20_000, 8, Corruption(limit=500), note="500 test images"),
        "paper": paper("CIFAR-10, 200 epochs, one GPU for each run", Corruption()),
    },
)
