"""Study, question 4: do the weights β find the patches that are wrong?

    geq reproduce study-weights --scale small

Time: a minute of one core for the images of a run at scale small; the trainings are those of study-feedback
(3 to 4 minutes each).

Welsch's loss helps against outliers in one way: a patch that the state does not explain has a large distance
q, hence a small β = exp(−γq), and pulls no more. Measured is whether β is low where an image was damaged
(50 % is chance, which is what γ = 0 has), and what a trained network loses under each fault when all its
patches get the same weight. β at the equilibrium is compared with β at z = 0 as well: where both rank the
patches alike, β tells how large a patch is, and not how badly it is explained.
"""

from __future__ import annotations

from geq.experiment.experiment import Experiment, Metric
from geq.experiment.outlier_measurement import OutlierWeights
from geq.experiment.study import better, control_arm, geq_arm, studied
from geq.experiment.study_robustness import OUTLIERS

FOUND = {name: Metric(f"beta_auroc/{name}", f"{name.replace('_', ' ')} found") for name in OUTLIERS}
EVEN = Metric("even_loss", "even weights lose", "points")
EVEN_EACH = {
    name: Metric(f"even_loss/{name}", f"… under {name.replace('_', ' ')}", "points") for name in OUTLIERS
}

EXPERIMENT = Experiment(
    name="study-weights",
    title="Do the weights find the outliers?",
    source="study 4",
    opening=__doc__ or "",
    arms={
        "bound-0.95": geq_arm("‖W‖ ≤ 0.95"),
        "bound-1.4": geq_arm("‖W‖ ≤ 1.4", "bound=1.4"),
        "control-1.4": control_arm("bound=1.4", label="γ = 0, ‖W‖ ≤ 1.4"),
    },
    metrics=(
        *FOUND.values(),
        EVEN,
        *EVEN_EACH.values(),
        Metric("beta_by_size", "rank correlation of β with that of z = 0", "", 3),
    ),
    claims=(
        *(
            better(
                f"β is lower where {name.replace('_', ' ')} did damage", "bound-1.4", "control-1.4", metric
            )
            for name, metric in FOUND.items()
        ),
    ),
    scales=studied("cifar10", 8_000, 6, OutlierWeights(OUTLIERS), note="500 of them damaged, severity 3"),
)
