"""Study, question 4, second part: label noise.

    geq reproduce study-label-noise --scale small

Time: 2 to 3 minutes of one core for a run at scale small, 10 minutes for a seed.

40 % of the training images have the label of another class; validation images have correct labels.
"""

from __future__ import annotations

from geq_papers.experiment.experiment import Experiment
from geq_papers.experiment.study_arms import TRAIN_LOSS, VALIDATION, four_networks, geq_is_better, studied

EXPERIMENT = Experiment(
    name="study-label-noise",
    title="40 % label noise on CIFAR-10",
    source="study 4",
    opening=__doc__ or "",
    arms=four_networks(),
    metrics=(VALIDATION, TRAIN_LOSS),
    claims=geq_is_better("With 40 % label noise"),
    scales=studied("cifar10", 8_000, 6, note="40 % label noise", data_override=["label_noise=0.4"]),
)
