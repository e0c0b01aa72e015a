"""GEQ, table 3: CIFAR-100's super-classes, trained on the first four sub-classes of each.

    geq reproduce geq-table-3 --scale small

Time: about 4 minutes of one core for a run at scale small; at scale paper two days of one GPU for a seed.

The paper reports (accuracy in % on known and on unknown sub-classes, mean ± spread): MOptEq 80.1 ± 0.3 and
77.4 ± 0.5, GEQ 80.9 ± 0.2 and 80.1 ± 0.6.
"""

from __future__ import annotations

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Experiment, Metric
from geq_papers.experiment.geq_arms import PARAMETERS, against_control, control, geq, mopteq
from geq_papers.experiment.measurement import UnseenAccuracy
from geq_papers.experiment.training_recipe import paper, small, smoke

KNOWN = Metric("test_accuracy", "known")
UNKNOWN = Metric("unknown_accuracy", "unknown")

EXPERIMENT = Experiment(
    name="geq-table-3",
    title="Super-classes of CIFAR-100: known and unknown sub-classes",
    source="GEQ table 3",
    opening=__doc__ or "",
    arms={
        "mopteq": mopteq("paper/mopteq_cifar100_superclass"),
        "control": control("paper/geq_cifar100_superclass"),
        "geq": geq("paper/geq_cifar100_superclass", "GEQ"),
    },
    metrics=(KNOWN, UNKNOWN, PARAMETERS),
    published={
        "mopteq": {KNOWN.key: (80.1, 0.3), UNKNOWN.key: (77.4, 0.5)},
        "geq": {KNOWN.key: (80.9, 0.2), UNKNOWN.key: (80.1, 0.6)},
    },
    claims=(
        Claim("GEQ is better than MOptEq on known sub-classes", "geq", "mopteq", KNOWN.key, 0.8),
        Claim("GEQ is better than MOptEq on unknown sub-classes", "geq", "mopteq", UNKNOWN.key, 2.7),
        against_control(UNKNOWN),
    ),
    scales={
        "smoke": smoke(UnseenAccuracy()),
        "small": small(
            "cifar100",
            10_000,
            8,
            UnseenAccuracy(),
            note="super-classes, four of five sub-classes",
            data_override=["classes=known"],
        ),
        "paper": paper("CIFAR-100, 200 epochs, one GPU for each run", UnseenAccuracy()),
    },
)
