"""GEQ, figure 3: Grad-CAM maps of GEQ and MOptEq.

    geq reproduce geq-figure-3 --scale small

Time: seconds for the maps of a run at scale small; the trainings are those of geq-table-1a.

The paper shows maps of one ImageNet image and says that GEQ looks more at what matters. As a number: how
much more the probability of the class falls when the 20 % most salient pixels are taken away than when as
many random ones are, and how much of the map lies on those pixels. 'geq explain' draws the maps.
"""

from __future__ import annotations

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Experiment, Metric
from geq_papers.experiment.geq_arms import against_control, control, geq, mopteq
from geq_papers.experiment.measurement import Saliency
from geq_papers.experiment.training_recipe import paper, small, smoke

DELETION = Metric("cam_deletion", "fall over chance", "points")
FOCUS = Metric("cam_focus", "mass on the top 20 %")

EXPERIMENT = Experiment(
    name="geq-figure-3",
    title="What Grad-CAM shows",
    source="GEQ figure 3",
    opening=__doc__ or "",
    arms={
        "mopteq": mopteq("paper/mopteq_cifar10_8m"),
        "control": control("paper/geq_cifar10_8m"),
        "geq": geq("paper/geq_cifar10_8m", "GEQ"),
    },
    metrics=(DELETION, FOCUS, Metric("test_accuracy", "accuracy")),
    claims=(
        Claim("GEQ's maps point to what matters, more than MOptEq's", "geq", "mopteq", DELETION.key),
        Claim("GEQ's maps are more focused than MOptEq's", "geq", "mopteq", FOCUS.key),
        against_control(DELETION),
    ),
    scales={
        "smoke": smoke(Saliency(images=50)),
        "small": small("cifar10", 20_000, 8, Saliency(images=500)),
        "paper": paper("CIFAR-10, 200 epochs, one GPU for each run", Saliency(images=2_000)),
    },
)
