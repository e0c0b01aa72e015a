"""The table that the study ends with, for one dataset."""

from __future__ import annotations

from geq_papers.experiment.experiment import Experiment, Metric
from geq_papers.experiment.geq_arms import ACCURACY, PARAMETERS, against_control, mdeq
from geq_papers.experiment.measurement import Corruption, Speed
from geq_papers.experiment.study_arms import TRAIN_LOSS, better, finalists, four_networks, geq_arm, under_each
from geq_papers.experiment.training_recipe import smoke

MEAN = Metric("corruption_accuracy", "mean of 19")
GROUPS = {
    group: Metric(f"corruption_group/{group}", group) for group in ("noise", "blur", "weather", "digital")
}
THROUGHPUT = Metric("images_per_second", "trained", "images/s", 0)
LABELS = {
    "resnet": "a ResNet",
    "mdeq": "an MDEQ",
    "linear": "the linear kernel",
    "sigmoid": "the sigmoid kernel",
}


def final(data: str, title: str, opening: str) -> Experiment:
    return Experiment(
        name=f"study-final-{data}",
        title="Six networks of one size",
        source=f"study, {title}",
        opening=opening,
        arms={
            "mdeq": mdeq(data),
            "sigmoid": geq_arm("sigmoid (OptEq)", "kernel=sigmoid", model="opteq_cascade_small"),
            **four_networks(),
        },
        metrics=(ACCURACY, MEAN, *GROUPS.values(), PARAMETERS, THROUGHPUT, TRAIN_LOSS),
        claims=(
            against_control(),
            *(better(f"GEQ is better than {label}", "geq", arm, ACCURACY) for arm, label in LABELS.items()),
            better("The Gaussian fits better than its γ = 0 control", "geq", "control", TRAIN_LOSS),
            better("GEQ fits better than the linear kernel", "geq", "linear", TRAIN_LOSS),
            better("Under corruption the Gaussian is better than γ = 0", "geq", "control", MEAN),
            *under_each(GROUPS.values()),
            *(
                better(f"Under corruption GEQ is better than {label}", "geq", arm, MEAN)
                for arm, label in LABELS.items()
            ),
        ),
        scales={
            "smoke": smoke(Corruption(limit=20), Speed(images=64, repeats=1)),
            "small": finalists(data, Corruption(limit=300), Speed(), note="300 test images corrupted"),
        },
    )
