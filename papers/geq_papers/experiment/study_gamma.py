"""Study, question 3: which γ?

    geq reproduce study-gamma --scale small

Time: about 4 minutes of one core for a run at scale small, half an hour for a seed.

γ learned once for a branch, for each channel group, or for each patch; from the median of the distances at
the equilibrium, as robust statistics sets the scale of the Welsch loss; as the paper sets it; and 0.
'Lost by even weights' is what a trained network loses when all patches get the mean weight of its β: how much
it relies on the choice between patches, which is what the Gaussian adds.
"""

from __future__ import annotations

from geq_papers.experiment.equilibrium_measurement import Equilibria, EvenWeights
from geq_papers.experiment.experiment import Experiment
from geq_papers.experiment.study_arms import (
    BETA,
    EVEN_LOSS,
    VALIDATION,
    better,
    control_arm,
    geq_arm,
    studied,
)

EXPERIMENT = Experiment(
    name="study-gamma",
    title="Rules for γ",
    source="study 3",
    opening=__doc__ or "",
    arms={
        "learned": geq_arm("learned, one for a branch"),
        "group": geq_arm("learned, for each channel group", "gamma=learned_group"),
        "patch": geq_arm("learned, for each patch", "gamma=learned_patch"),
        "median-0.1": geq_arm("0.1/median at z*", "gamma=median", "gamma_value=0.1"),
        "median-0.5": geq_arm("0.5/median at z*", "gamma=median", "gamma_value=0.5"),
        "paper": geq_arm("0.2/M, gradient through M", "gamma=paper"),
        "control": control_arm(),
    },
    metrics=(VALIDATION, EVEN_LOSS, BETA),
    claims=(
        better("A γ for each channel group is better than one", "group", "learned"),
        better("A γ for each patch is better than one", "patch", "learned"),
        better("A learned γ is better than the median's 0.1", "learned", "median-0.1"),
        better("A learned γ is better than the median's 0.5", "learned", "median-0.5"),
        better("A learned γ is better than the paper's rule", "learned", "paper"),
        better("A learned γ is better than γ = 0", "learned", "control"),
    ),
    scales=studied("cifar10", 8_000, 6, Equilibria(), EvenWeights()),
)
