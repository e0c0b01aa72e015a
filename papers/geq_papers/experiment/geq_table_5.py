"""GEQ, table 5: kernels, on CIFAR-100.

    geq reproduce geq-table-5 --scale small

Time: 6 to 9 minutes of one core for a run at scale small (three of the five arms share their runs with
geq-table-1b); at scale paper some days of one GPU for a seed.

The paper reports (accuracy in %, mean ± spread, 8M parameters): linear (MOptEq) 75.6 ± 0.2, polynomial 75.1
± 0.4, sigmoid 76.1 ± 0.3, Gaussian (GEQ) 78.2 ± 0.2.
"""

from __future__ import annotations

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Arm, Experiment
from geq_papers.experiment.geq_arms import ACCURACY, PARAMETERS, against_control, control, geq, mopteq
from geq_papers.experiment.training_recipe import paper, small, smoke

KEY = ACCURACY.key


def kernel(label: str, name: str) -> Arm:
    return Arm(
        label,
        {
            "smoke": {"model": f"mopteq_tiny_{name}"},
            "small": {"model": f"mopteq_small_{name}"},
            "paper": {"preset": "paper/mopteq_cifar100_8m", "model": f"mopteq_cifar_8m_{name}"},
        },
    )


EXPERIMENT = Experiment(
    name="geq-table-5",
    title="Kernels on CIFAR-100",
    source="GEQ table 5",
    opening=__doc__ or "",
    arms={
        "mopteq": mopteq("paper/mopteq_cifar100_8m", "linear (MOptEq)"),
        "polynomial": kernel("polynomial", "polynomial"),
        "sigmoid": kernel("sigmoid", "sigmoid"),
        "control": control("paper/geq_cifar100_8m"),
        "geq": geq("paper/geq_cifar100_8m", "Gaussian (GEQ)"),
    },
    metrics=(ACCURACY, PARAMETERS),
    published={
        "mopteq": {KEY: (75.6, 0.2)},
        "polynomial": {KEY: (75.1, 0.4)},
        "sigmoid": {KEY: (76.1, 0.3)},
        "geq": {KEY: (78.2, 0.2)},
    },
    claims=(
        Claim("The Gaussian is better than the linear kernel", "geq", "mopteq", KEY, 2.6),
        Claim("The Gaussian is better than the sigmoid kernel", "geq", "sigmoid", KEY, 2.1),
        Claim("The Gaussian is better than the polynomial kernel", "geq", "polynomial", KEY, 3.1),
        Claim("The sigmoid kernel is better than the linear one", "sigmoid", "mopteq", KEY, 0.5),
        Claim("The polynomial kernel is worse than the linear one", "mopteq", "polynomial", KEY, 0.5),
        against_control(),
    ),
    scales={
        "smoke": smoke(),
        "small": small("cifar100", 20_000, 8),
        "paper": paper("CIFAR-100, 200 epochs, one GPU for each run"),
    },
)
