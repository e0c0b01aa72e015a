"""Study, question 4, third part: few images.

    geq reproduce study-few-images --scale small

Time: 2 minutes of one core for a run at scale small, 8 minutes for a seed.

1,000 training images, so many epochs that the number of steps is about that of the other studies.
"""

from __future__ import annotations

from geq_papers.experiment.experiment import Experiment
from geq_papers.experiment.study_arms import TRAIN_LOSS, VALIDATION, four_networks, geq_is_better, studied

EXPERIMENT = Experiment(
    name="study-few-images",
    title="1,000 training images of CIFAR-10",
    source="study 4",
    opening=__doc__ or "",
    arms=four_networks(),
    metrics=(VALIDATION, TRAIN_LOSS),
    claims=geq_is_better("With 1,000 images"),
    scales=studied("cifar10", 1_000, 40),
)
