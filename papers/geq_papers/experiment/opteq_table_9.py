"""OptEq, table 9: training speed.

    geq reproduce opteq-table-9 --scale small

Time: about a minute of one core for a run at scale small; at scale paper some hours of one GPU for a seed
(one epoch; needs ImageNet: see 'geq data fetch imagenet').

The paper reports images a second on eight A100: ResNet-50 4597, MDEQ single branch 257, MDEQ 1057, OptEq
unrolled (K = 5) 1835, OptEq by IFT 200 with depthwise and 1137 with plain convolutions. Speeds of different
machines cannot be compared; their order can. The MDEQ of that size has no run here at scale paper.
"""

from __future__ import annotations

from typing import Any

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Arm, Experiment, Metric
from geq_papers.experiment.measurement import Speed
from geq_papers.experiment.training_recipe import paper, small, smoke

SPEED = Metric("images_per_second", "forward and backward", "images/s", 0)
PRESET = "paper/opteq_imagenet_small"


def opteq(label: str, gradient: str, steps: int | None, *override: str) -> Arm:
    own: dict[str, Any] = {"gradient": gradient, "steps": steps, "override": list(override)}
    return Arm(
        label,
        {
            "smoke": {"model": "deep_opteq_tiny", **own},
            "small": {"model": "deep_opteq_small", **own},
            "paper": {"preset": PRESET, "regulariser": None, **own},
        },
    )


EXPERIMENT = Experiment(
    name="opteq-table-9",
    title="Training speed",
    source="OptEq table 9",
    opening=__doc__ or "",
    arms={
        "resnet": Arm(
            "ResNet-50",
            {
                "smoke": {"model": "resnet_tiny"},
                "small": {"model": "resnet_small"},
                "paper": {
                    "preset": PRESET,
                    "model": "resnet50",
                    "gradient": None,
                    "steps": None,
                    "regulariser": None,
                },
            },
        ),
        "mdeq": Arm("MDEQ", {"smoke": {"model": "mdeq_tiny"}, "small": {"model": "mdeq_small"}}),
        "unrolled": opteq("OptEq, unrolled (K = 5)", "unrolled", 5),
        "ift_separable": opteq("OptEq, IFT, depthwise convolutions", "implicit", None, "separable=true"),
        "ift": opteq("OptEq, IFT, plain convolutions", "implicit", None, "separable=false"),
    },
    metrics=(SPEED,),
    published={
        "resnet": {SPEED.key: (4597.0, None)},
        "mdeq": {SPEED.key: (1057.0, None)},
        "unrolled": {SPEED.key: (1835.0, None)},
        "ift_separable": {SPEED.key: (200.0, None)},
        "ift": {SPEED.key: (1137.0, None)},
    },
    claims=(
        Claim("ResNet trains faster than OptEq", "resnet", "unrolled", SPEED.key, 2762.0),
        Claim("Unrolled OptEq trains faster than MDEQ", "unrolled", "mdeq", SPEED.key, 778.0),
        Claim("Unrolled OptEq trains faster than by IFT", "unrolled", "ift", SPEED.key, 698.0),
        Claim("IFT is slower with depthwise convolutions", "ift", "ift_separable", SPEED.key, 937.0),
    ),
    scales={
        "smoke": smoke(Speed(images=64, repeats=1)),
        "small": small(
            "cifar10",
            1_000,
            1,
            Speed(),
            note="the accuracy means nothing",
            warmup_epochs=0.5,
            evaluate_every=1,
        ),
        "paper": paper("ImageNet, one epoch; eight GPUs in the paper", Speed(images=4_096), epochs=1),
    },
)
