"""Study, question 4: do the weights β find the patches that are wrong?

    geq reproduce study-weights --scale small

Time: 4 to 8 minutes of one core for a run at scale small, 20 minutes for a seed; a minute for each
where study-feedback was run before in the same folder, whose trainings these are.

Welsch's loss helps against outliers in one way: a patch that the state does not explain has a large distance
q, hence a small β = exp(−γq), and pulls no more. Measured is whether β is low where an image was damaged
(50 % is chance, which is what γ = 0 has), and what a trained network loses under each fault when all its
patches get the same weight. β at the equilibrium is compared with β at z = 0 as well: where both rank the
patches alike, β tells how large a patch is, and not how badly it is explained. If that is so because the
state explains little, it must change in a network whose state explains more, beyond the certificate.
"""

from __future__ import annotations

from geq_papers.experiment.experiment import Experiment, Metric
from geq_papers.experiment.outlier_measurement import OutlierWeights
from geq_papers.experiment.study_arms import EVEN_LOSS, better, studied
from geq_papers.experiment.study_feedback import EXPERIMENT as FEEDBACK
from geq_papers.experiment.study_robustness import EACH, OUTLIERS

FOUND = {kind.label: Metric(f"beta_auroc/{name}", f"{kind.label} found") for name, kind in EACH.items()}
BY_SIZE = Metric("beta_by_size", "rank correlation of β with that of z = 0", "", 3, lower_is_better=True)

EXPERIMENT = Experiment(
    name="study-weights",
    title="Do the weights find the outliers?",
    source="study 4",
    opening=__doc__ or "",
    arms={name: FEEDBACK.arms[name] for name in ("bound-0.95", "bound-1.4", "bound-2.5", "control-1.4")},
    metrics=(
        *FOUND.values(),
        EVEN_LOSS,
        *(Metric(f"even_loss/{name}", f"… under {kind.label}", "points") for name, kind in EACH.items()),
        BY_SIZE,
    ),
    claims=(
        *(
            better(f"β is lower where {kind} did damage", "bound-1.4", "control-1.4", metric)
            for kind, metric in FOUND.items()
        ),
        better("Beyond the certificate β tells less of a patch's size", "bound-2.5", "bound-1.4", BY_SIZE),
        *(
            better(f"Beyond the certificate β finds {kind} better", "bound-2.5", "bound-1.4", metric)
            for kind, metric in FOUND.items()
        ),
    ),
    scales=studied("cifar10", 8_000, 6, OutlierWeights(OUTLIERS), note="500 of them damaged, severity 3"),
)
