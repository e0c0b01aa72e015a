"""OptEq, table 7: ImageNet.

    geq reproduce opteq-table-7 --scale small

Time: at scale paper months of one GPU (eight GPUs in the paper); 2 to 5 minutes of one core for a run at
scale small, which stands in with CIFAR-100. Needs ImageNet at scale paper: see 'geq data fetch imagenet'.

The paper reports (top 1, top 5 accuracy in %): ResNet-18 70.2, 89.9; ResNet-34 74.8, 91.1; ResNet-50 75.1,
92.5; ResNet-101 77.1, 93.5; Wide ResNet-50 78.1, 93.9; MDEQ-small 75.5, 92.7; MDEQ-large 77.5, 93.6;
OptEq-small 76.9, 93.1 (with learned α 76.7, 93.1), OptEq-middle 78.3, 94.0. The MDEQ rows have no run here.
"""

from __future__ import annotations

from typing import Any

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Arm, Experiment, Metric
from geq_papers.experiment.geq_arms import PARAMETERS
from geq_papers.experiment.training_recipe import paper, small, smoke

TOP1, TOP5 = Metric("test_accuracy", "top 1"), Metric("test_top5", "top 5")
PRESET = "paper/opteq_imagenet_small"
EXPLICIT: dict[str, Any] = {"gradient": None, "steps": None, "regulariser": None, "override": []}


def resnet(label: str, name: str, *, also_small: bool = False) -> Arm:
    options: dict[Any, Any] = {"paper": {"preset": PRESET, "model": name, **EXPLICIT}}
    if also_small:
        options |= {"smoke": {"model": "resnet_tiny"}, "small": {"model": "resnet_small"}}
    return Arm(label, options)


def opteq(label: str, *override: str) -> Arm:
    own = {"gradient": "unrolled", "steps": 5, "regulariser": "decorrelation", "override": list(override)}
    return Arm(
        label,
        {
            "smoke": {"model": "deep_opteq_tiny", **own},
            "small": {"model": "deep_opteq_small", **own},
            "paper": {"preset": PRESET, "override": list(override)},
        },
    )


FIGURES = {
    "resnet18": (70.2, 89.9),
    "resnet34": (74.8, 91.1),
    "resnet50": (75.1, 92.5),
    "mdeq": (75.5, 92.7),
    "learned": (76.7, 93.1),
    "small": (76.9, 93.1),
    "resnet101": (77.1, 93.5),
    "wide": (78.1, 93.9),
    "mdeq_large": (77.5, 93.6),
    "middle": (78.3, 94.0),
}

EXPERIMENT = Experiment(
    name="opteq-table-7",
    title="Accuracy on ImageNet",
    source="OptEq table 7",
    opening=__doc__ or "",
    arms={
        "resnet18": resnet("ResNet-18", "resnet18"),
        "resnet34": resnet("ResNet-34", "resnet34"),
        "resnet50": resnet("ResNet-50", "resnet50", also_small=True),
        "mdeq": Arm("MDEQ-small", {}),
        "learned": opteq("OptEq-small, learned α", "learn_alpha=true"),
        "small": opteq("OptEq-small"),
        "resnet101": resnet("ResNet-101", "resnet101"),
        "wide": resnet("Wide ResNet-50", "wide_resnet50"),
        "mdeq_large": Arm("MDEQ-large", {}),
        "middle": Arm("OptEq-middle", {"paper": {"preset": "paper/opteq_imagenet_middle"}}),
    },
    metrics=(TOP1, TOP5, PARAMETERS),
    published={arm: {TOP1.key: (a, None), TOP5.key: (b, None)} for arm, (a, b) in FIGURES.items()},
    claims=(
        Claim("OptEq-small is better than ResNet-50", "small", "resnet50", TOP1.key, 1.8),
        Claim("OptEq-small is better than ResNet-34", "small", "resnet34", TOP1.key, 2.1),
        Claim("OptEq-middle is better than ResNet-101", "middle", "resnet101", TOP1.key, 1.2),
        Claim("OptEq-middle is better than Wide ResNet-50", "middle", "wide", TOP1.key, 0.2),
        Claim(
            "A learned α is not worse than the fixed one by more than a point",
            "learned",
            "small",
            TOP1.key,
            -0.2,
            at_least=-1.0,
        ),
    ),
    scales={
        "smoke": smoke(),
        "small": small(
            "cifar100", 10_000, 8, note="a stand-in for ImageNet, with 5 unrolled steps and decorrelation*"
        ),
        "paper": paper("ImageNet, 300 epochs of batches of 1024; eight GPUs in the paper"),
    },
)
