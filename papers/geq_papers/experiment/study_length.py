"""Study, question 5, second part: is γ = 0 only slower?

    geq reproduce study-length --scale small

Time: 2 minutes of one core for a short run at scale small, 8 for a long one, 20 minutes for a seed.

Where the Gaussian leads its γ = 0 control, its training loss ends lower too: it fits faster. A lead of that
kind goes away when both are trained for longer; one that comes from what the networks can express stays. The
same 5,000 images, 6 epochs and 24, each with a schedule of its own. The claims were written down before the
first of these runs.
"""

from __future__ import annotations

from geq_papers.experiment.experiment import Experiment
from geq_papers.experiment.study_arms import (
    STRONG,
    TRAIN_LOSS,
    VALIDATION,
    better,
    control_arm,
    geq_arm,
    small_only,
    studied,
)

SHORT, LONG = 6, 24
BRIEFLY = {"epochs": SHORT, "evaluate_every": SHORT}

EXPERIMENT = Experiment(
    name="study-length",
    title="GEQ and its control, trained for longer",
    source="study 5",
    opening=__doc__ or "",
    arms={
        "control-short": small_only(control_arm(label=f"γ = 0, {SHORT} epochs", model=STRONG, **BRIEFLY)),
        "geq-short": small_only(geq_arm(f"GEQ, {SHORT} epochs", model=STRONG, **BRIEFLY)),
        "control-long": control_arm(label=f"γ = 0, {LONG} epochs", model=STRONG),
        "geq-long": geq_arm(f"GEQ, {LONG} epochs", model=STRONG),
    },
    metrics=(VALIDATION, TRAIN_LOSS),
    claims=(
        better(f"With {SHORT} epochs the Gaussian is better than γ = 0", "geq-short", "control-short"),
        better(f"With {LONG} epochs the Gaussian is better than γ = 0", "geq-long", "control-long"),
        better(
            f"The Gaussian's lead over γ = 0 is larger with {SHORT} epochs than with {LONG}",
            "geq-short",
            "control-short",
            beyond=("geq-long", "control-long"),
        ),
        better(f"With {SHORT} epochs the Gaussian fits better", "geq-short", "control-short", TRAIN_LOSS),
        better(f"With {LONG} epochs the Gaussian fits better", "geq-long", "control-long", TRAIN_LOSS),
    ),
    scales=studied("cifar10", 5_000, LONG, note=f"the short arms {SHORT} epochs"),
)
