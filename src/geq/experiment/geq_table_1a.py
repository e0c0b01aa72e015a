"""GEQ, table 1 (a): CIFAR-10.

    geq reproduce geq-table-1a --scale small

Time: about 6 minutes of one core for a run of GEQ at scale small; on one GPU some days for all runs at scale
paper.

The paper reports (accuracy in %, mean ± spread): ResNet-18 93.5 ± 0.2, ResNet-50 95.2 ± 0.2, MDEQ 94.2 ± 0.3,
MOptEq 94.6 ± 0.2, GEQ 94.8 ± 0.1 with 5M and 95.6 ± 0.2 with 8M parameters.
"""

from __future__ import annotations

from geq.experiment.claim import Claim
from geq.experiment.experiment import Arm, Experiment, Metric
from geq.experiment.recipe import paper, sizes, small, smoke

ACCURACY = "test_accuracy"

EXPERIMENT = Experiment(
    name="geq-table-1a",
    title="Accuracy on CIFAR-10",
    source="GEQ table 1a",
    opening=__doc__ or "",
    arms={
        "resnet": Arm("ResNet-18", sizes("resnet_tiny", "resnet_small", "paper/resnet18_cifar10")),
        "resnet50": Arm("ResNet-50", sizes(None, None, "paper/resnet50_cifar10")),
        "mdeq": Arm("MDEQ", sizes("mdeq_tiny", "mdeq_small", "paper/mdeq_cifar10_10m")),
        "mopteq": Arm("MOptEq", sizes("mopteq_tiny", "mopteq_small", "paper/mopteq_cifar10_8m")),
        "control": Arm(
            "GEQ, γ = 0",
            {
                **sizes("geq_tiny_control", "geq_small_control", None),
                "paper": {"preset": "paper/geq_cifar10_8m", "override": ["gamma=zero", "gradient=phantom"]},
            },
            control=True,
        ),
        "geq_5m": Arm("GEQ (5M)", sizes(None, None, "paper/geq_cifar10_5m")),
        "geq": Arm("GEQ (8M)", sizes("geq_tiny", "geq_small", "paper/geq_cifar10_8m")),
    },
    metrics=(
        Metric(ACCURACY, "accuracy"),
        Metric("parameters", "parameters", "", 0, lower_is_better=True),
    ),
    published={
        "resnet": {ACCURACY: (93.5, 0.2)},
        "resnet50": {ACCURACY: (95.2, 0.2)},
        "mdeq": {ACCURACY: (94.2, 0.3)},
        "mopteq": {ACCURACY: (94.6, 0.2)},
        "geq_5m": {ACCURACY: (94.8, 0.1)},
        "geq": {ACCURACY: (95.6, 0.2)},
    },
    claims=(
        Claim("GEQ is better than MOptEq", "geq", "mopteq", ACCURACY, 1.0),
        Claim("GEQ is better than MDEQ", "geq", "mdeq", ACCURACY, 1.4),
        Claim("GEQ is better than ResNet-18", "geq", "resnet", ACCURACY, 2.1),
        Claim("GEQ is better than ResNet-50", "geq", "resnet50", ACCURACY, 0.4),
        Claim("The Gaussian is better than its γ = 0 control", "geq", "control", ACCURACY, ours=True),
    ),
    scales={
        "smoke": smoke(),
        "small": small("cifar10", 20_000, 8),
        "paper": paper("CIFAR-10, 200 epochs; one GPU"),
    },
)
