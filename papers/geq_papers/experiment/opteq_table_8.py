"""OptEq, table 8: unrolled iterations against the implicit function theorem (IFT), on CIFAR-10.

    geq reproduce opteq-table-8 --scale small

Time: 2 to 7 minutes of one core for a run at scale small; at scale paper a week of one GPU for a seed.

The paper reports accuracy in %, inference and backward time (s, for 80 batches of 125) and relative
residual: unrolled K = 5 83.52, 1.3, 1.8, 1.2e-2; K = 10 87.28, 2.2, 3.3, 4.9e-3; K = 20 87.71, 3.9, 6.4,
4.8e-4; K = 40 87.83, 7.5, 12.7, 1.2e-5; IFT with threshold 1e-3 87.63, 16.3, 6.7, 7.3e-4; 1e-2 85.95, 15.6,
1.3, 9.5e-3. Its times are given here in milliseconds for an image.
"""

from __future__ import annotations

from typing import Any

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Arm, Experiment, Metric
from geq_papers.experiment.geq_arms import ACCURACY
from geq_papers.experiment.measurement import Speed
from geq_papers.experiment.opteq_arms import PRESET
from geq_papers.experiment.training_recipe import paper, sizes, small, smoke

KEY = ACCURACY.key
FORWARD = Metric("inference_ms", "inference", "ms", 3, lower_is_better=True)
BACKWARD = Metric("backward_ms", "backward", "ms", 3, lower_is_better=True)
RESIDUAL = Metric("mean_residual", "residual", "", 4, lower_is_better=True)
IMAGES = 80 * 125

UNROLLED = {
    "unrolled-5": (5, 83.52, 1.3, 1.8, 1.22e-2),
    "unrolled-10": (10, 87.28, 2.2, 3.3, 4.88e-3),
    "unrolled-20": (20, 87.71, 3.9, 6.4, 4.81e-4),
    "unrolled-40": (40, 87.83, 7.5, 12.7, 1.20e-5),
}
IMPLICIT = {
    "ift-1e-3": (1e-3, 87.63, 16.3, 6.7, 7.33e-4),
    "ift-1e-2": (1e-2, 85.95, 15.6, 1.3, 9.52e-3),
}


def unrolled(steps: int) -> Arm:
    own: dict[str, Any] = {"gradient": "unrolled", "steps": steps}
    return Arm(f"unrolled, K = {steps}", sizes("deep_opteq_tiny", "deep_opteq_small", PRESET, **own))


def implicit(threshold: float) -> Arm:
    own: dict[str, Any] = {
        "gradient": "implicit",
        "steps": None,
        "override": [f"tol={threshold:g}", f"gradient_tol={threshold:g}"],
    }
    label = f"IFT, threshold {threshold:g}"
    return Arm(label, sizes("deep_opteq_tiny", "deep_opteq_small", PRESET, **own))


EXPERIMENT = Experiment(
    name="opteq-table-8",
    title="Unrolled iterations against the implicit gradient",
    source="OptEq table 8",
    opening=__doc__ or "",
    arms={
        **{name: unrolled(row[0]) for name, row in UNROLLED.items()},
        **{name: implicit(row[0]) for name, row in IMPLICIT.items()},
    },
    metrics=(ACCURACY, FORWARD, BACKWARD, RESIDUAL, Metric("mean_evaluations", "evaluations", "", 1)),
    published={
        name: {
            KEY: (row[1], None),
            FORWARD.key: (1000 * row[2] / IMAGES, None),
            BACKWARD.key: (1000 * row[3] / IMAGES, None),
            RESIDUAL.key: (row[4], None),
        }
        for name, row in (*UNROLLED.items(), *IMPLICIT.items())
    },
    claims=(
        Claim("K = 20 is better than K = 5", "unrolled-20", "unrolled-5", KEY, 4.19),
        Claim("K = 20 is better than IFT at the same residual", "unrolled-20", "ift-1e-3", KEY, 0.08),
        Claim(
            "K = 20 infers faster than IFT at the same residual",
            "unrolled-20",
            "ift-1e-3",
            FORWARD.key,
            1.24,
            lower_is_better=True,
        ),
        Claim("A loose threshold hurts IFT", "ift-1e-3", "ift-1e-2", KEY, 1.68),
    ),
    scales={
        "smoke": smoke(Speed(images=64, repeats=1)),
        "small": small("cifar10", 4_000, 5, Speed(), evaluate_every=5),
        "paper": paper("CIFAR-10, 200 epochs, one GPU for each run", Speed(images=10_000)),
    },
)
