"""Study, question 4: where does robustness show?

    geq reproduce study-robustness --scale small

Time: about 2 minutes of one core for the images of a run at scale small; the trainings are those of
study-final-cifar10 (4 to 10 minutes each).

The Gaussian turns the squared distance of a patch into Welsch's loss: a patch that fits nothing loses its
weight. So, if anywhere, it should pay where a few patches are wrong and the others right: something in
front of the camera, lost blocks, dead columns, hot pixels, impulse noise, spatter. All networks were trained
on clean images.
"""

from __future__ import annotations

from geq.data.corruption.corruption_registry import FAULTS
from geq_papers.experiment.experiment import Experiment, Metric
from geq_papers.experiment.measurement import Corruption
from geq_papers.experiment.study_arms import better, finalists, four_networks, under_each
from geq_papers.experiment.training_recipe import smoke

OUTLIERS = (*FAULTS, "impulse_noise", "spatter")
LOST = Metric("corruption_loss", "lost", "points", lower_is_better=True)
MEAN = Metric("corruption_accuracy", "mean of six")
EACH = {name: Metric(f"corruption/{name}", name.replace("_", " ")) for name in OUTLIERS}

EXPERIMENT = Experiment(
    name="study-robustness",
    title="Accuracy under outliers on CIFAR-10",
    source="study 4",
    opening=__doc__ or "",
    arms=four_networks(),
    metrics=(
        Metric("test_accuracy", "clean"),
        MEAN,
        LOST,
        *EACH.values(),
    ),
    claims=(
        better("Under outliers the Gaussian is better than γ = 0", "geq", "control", MEAN),
        *under_each(EACH.values()),
        better("Under outliers GEQ is better than the linear kernel", "geq", "linear", MEAN),
        better("Under outliers GEQ is better than a ResNet", "geq", "resnet", MEAN),
        better("Outliers cost GEQ less than a ResNet", "geq", "resnet", LOST),
    ),
    scales={
        "smoke": smoke(Corruption(limit=20, names=OUTLIERS)),
        "small": finalists("cifar10", Corruption(limit=1000, names=OUTLIERS), note="1,000 test images"),
    },
)
