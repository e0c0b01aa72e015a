"""Study, question 5: does the Gaussian gain with size?

    geq reproduce study-scale --scale small

Time: 1 to 9 minutes of one core for a run at scale small, 20 minutes for a seed (the trainings of 50 thousand
parameters are those of study-feedback).

GEQ and its γ = 0 control at about 20, 50 and 200 thousand parameters, with the same images and epochs.
"""

from __future__ import annotations

from dataclasses import replace

from geq_papers.experiment.equilibrium_measurement import Equilibria
from geq_papers.experiment.experiment import Experiment
from geq_papers.experiment.geq_arms import PARAMETERS
from geq_papers.experiment.study_arms import (
    FEEDBACK,
    STRONG,
    TRAIN_LOSS,
    VALIDATION,
    better,
    control_arm,
    geq_arm,
    small_only,
    studied,
)
from geq_papers.experiment.study_feedback import EXPERIMENT as AT_50K

NARROW = ("stem_channels=[12,16]", "mid_channels=[8,16,24]", "out_channels=20", "hidden=16")
WIDE = ("stem_channels=[24,48]", "mid_channels=[32,48,64]", "out_channels=72", "hidden=64")
SIZES = {"20k": 20, "50k": 50, "200k": 200}


EXPERIMENT = Experiment(
    name="study-scale",
    title="GEQ and its control at three sizes",
    source="study 5",
    opening=__doc__ or "",
    arms={
        "control-20k": small_only(control_arm(*NARROW, label="γ = 0, 20k", model=STRONG)),
        "geq-20k": small_only(geq_arm("GEQ, 20k", *NARROW, model=STRONG)),
        "control-50k": replace(AT_50K.arms["control-1.4"], label="γ = 0, 50k"),
        "geq-50k": replace(AT_50K.arms["bound-1.4"], label="GEQ, 50k"),
        "control-200k": small_only(control_arm(*WIDE, label="γ = 0, 200k", model=STRONG)),
        "geq-200k": small_only(geq_arm("GEQ, 200k", *WIDE, model=STRONG)),
    },
    metrics=(VALIDATION, PARAMETERS, FEEDBACK, TRAIN_LOSS),
    claims=(
        *(
            better(f"At {size} the Gaussian is better than γ = 0", f"geq-{size}", f"control-{size}")
            for size in SIZES
        ),
        *(
            better(
                f"At {size} the Gaussian fits better than γ = 0", f"geq-{size}", f"control-{size}", TRAIN_LOSS
            )
            for size in SIZES
        ),
        better(
            "The Gaussian's lead over γ = 0 is larger at 200k than at 20k",
            "geq-200k",
            "control-200k",
            beyond=("geq-20k", "control-20k"),
        ),
    ),
    scales=studied("cifar10", 8_000, 6, Equilibria()),
    axes={
        "thousand parameters, GEQ": {f"geq-{size}": number for size, number in SIZES.items()},
        "thousand parameters, γ = 0": {f"control-{size}": number for size, number in SIZES.items()},
    },
)
