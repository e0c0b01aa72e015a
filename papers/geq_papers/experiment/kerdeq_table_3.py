"""KerDEQ, table 3: trained on the first five classes of CIFAR-10, shown the other five.

    geq reproduce kerdeq-table-3 --scale small

Time: 3 to 4 minutes of one core for a run at scale small; at scale paper two days of one GPU for a seed.

The paper reports accuracy in %, KL on known classes, KL to uniform on unknown ones (lower is better): OptEq
90.56, 0.38, 1.51; KerDEQ 92.42, 0.306, 1.21.
"""

from __future__ import annotations

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Arm, Experiment, Metric
from geq_papers.experiment.geq_arms import ACCURACY
from geq_papers.experiment.measurement import Calibration
from geq_papers.experiment.training_recipe import paper, sizes, small, smoke

PRESET = "paper/kerdeq_cifar10_known"
KNOWN = Metric("known_kl", "KL, known", "", 3, lower_is_better=True)
UNKNOWN = Metric("unknown_kl", "KL, unknown", "", 3, lower_is_better=True)

EXPERIMENT = Experiment(
    name="kerdeq-table-3",
    title="Five known and five unknown classes of CIFAR-10",
    source="KerDEQ table 3",
    opening=__doc__ or "",
    arms={
        "mopteq": Arm(
            "OptEq (with KerDEQ's branches)",
            {
                **sizes("mopteq_tiny", "mopteq_small", None),
                "paper": {"preset": PRESET, "model": "mopteq_cifar_8m"},
            },
        ),
        "control": Arm(
            "KerDEQ, γ = 0",
            {
                **sizes("kerdeq_tiny", "kerdeq_small", None, override=["gamma=zero"]),
                "paper": {"preset": PRESET, "override": ["gamma=zero", "gradient=phantom"]},
            },
            control=True,
        ),
        "kerdeq": Arm("KerDEQ", sizes("kerdeq_tiny", "kerdeq_small", PRESET)),
        "geq": Arm(
            "GEQ (learned γ)",
            {
                **sizes("geq_tiny", "geq_small", None),
                "paper": {"preset": PRESET, "model": "geq_cifar_5m"},
            },
        ),
    },
    metrics=(ACCURACY, KNOWN, UNKNOWN, Metric("ece", "ECE", lower_is_better=True)),
    published={
        "mopteq": {ACCURACY.key: (90.56, None), KNOWN.key: (0.38, None), UNKNOWN.key: (1.51, None)},
        "kerdeq": {ACCURACY.key: (92.42, None), KNOWN.key: (0.306, None), UNKNOWN.key: (1.21, None)},
    },
    claims=(
        Claim("KerDEQ is better than OptEq", "kerdeq", "mopteq", ACCURACY.key, 1.86),
        Claim(
            "KerDEQ has the lower KL on known classes",
            "kerdeq",
            "mopteq",
            KNOWN.key,
            0.074,
            lower_is_better=True,
        ),
        Claim(
            "KerDEQ is less sure of unknown classes",
            "kerdeq",
            "mopteq",
            UNKNOWN.key,
            0.30,
            lower_is_better=True,
        ),
        Claim("The Gaussian is better than its γ = 0 control", "kerdeq", "control", ACCURACY.key, ours=True),
        Claim(
            "The Gaussian is less sure of unknown classes than its γ = 0 control",
            "kerdeq",
            "control",
            UNKNOWN.key,
            lower_is_better=True,
            ours=True,
        ),
    ),
    scales={
        "smoke": smoke(Calibration(limit=100, train_images=100)),
        "small": small(
            "cifar10", 8_000, 8, Calibration(), note="five classes", data_override=["classes=known"]
        ),
        "paper": paper("CIFAR-10, five classes, 200 epochs, one GPU for each run", Calibration()),
    },
)
