"""Study, question 1: does the paper's γ collapse, why, and what holds it off?

    geq reproduce study-collapse --scale small

Time: 6 minutes of one core for a run at scale small, 40 minutes for a seed.

The paper sets γ = 0.2/M with M the smallest distance of a patch and does not say whether the gradient passes
through M. If it does not, γ undoes what the gradient does to the distances: these shrink without end, γ
grows, and W_h loses rank. Compared here: that rule, the same with the gradient through M, γ from the median
at the equilibrium (no gradient either), a learned γ, and the γ = 0 control; and the first and the learned one
with weight decay on all parameters, W_h among them, as optimisers have it unless they are told otherwise.
Few images, many epochs and small batches, since a collapse takes steps.
"""

from __future__ import annotations

from geq_papers.experiment.equilibrium_measurement import Equilibria, SinceStart
from geq_papers.experiment.experiment import Experiment
from geq_papers.experiment.study_arms import (
    BETA,
    DISTANCE,
    GROWTH,
    PAPER,
    RANK,
    VALIDATION,
    better,
    control_arm,
    geq_arm,
    studied,
)

EXPERIMENT = Experiment(
    name="study-collapse",
    title="What becomes of γ in training",
    source="study 1",
    opening=__doc__ or "",
    arms={
        "detached": geq_arm("γ = 0.2/M, M held fixed", "gamma=paper_detached", model=PAPER),
        "decayed": geq_arm(
            "… and weight decay on W_h too", "gamma=paper_detached", model=PAPER, decay_all=True
        ),
        "through": geq_arm("γ = 0.2/M, gradient through M", "gamma=paper", model=PAPER),
        "median": geq_arm("γ = 0.2/median at z*", "gamma=median", model=PAPER),
        "learned": geq_arm("γ learned (default)", model=PAPER),
        "learned-decayed": geq_arm("γ learned, weight decay on W_h too", model=PAPER, decay_all=True),
        "control": control_arm(model=PAPER),
    },
    metrics=(VALIDATION, GROWTH, DISTANCE, RANK, BETA),
    claims=(
        better("With M held fixed, γ grows more than a learned γ does", "learned", "detached", GROWTH),
        better("With M held fixed, W_h loses rank", "learned", "detached", RANK),
        better("Weight decay on W_h too hastens the loss of rank", "detached", "decayed", RANK),
        better("With weight decay, a learned γ keeps more rank", "learned-decayed", "decayed", RANK),
        better("With weight decay, a learned γ is better", "learned-decayed", "decayed"),
        better("A learned γ is better than the paper's with M held fixed", "learned", "detached"),
        better("The gradient through M helps", "through", "detached"),
        better("A learned γ is better than the paper's", "learned", "through"),
        better("A learned γ is better than the median's", "learned", "median"),
        better("A learned γ is better than γ = 0", "learned", "control"),
    ),
    scales=studied("cifar10", 5_000, 24, Equilibria(), SinceStart(), batch_size=32, note="batches of 32"),
)
