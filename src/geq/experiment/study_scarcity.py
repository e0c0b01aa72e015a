"""Study, question 4, second part: wrong labels, and few images.

    geq reproduce study-scarcity --scale small

Time: 1 to 3 minutes of one core for a run at scale small, about half an hour for a seed.

40 % of the labels are wrong, or there are 2,000 images instead of 10,000. 5,000 images with right labels
judge.
"""

from __future__ import annotations

from typing import Any

from geq.experiment.equilibrium_measurement import Validated
from geq.experiment.experiment import Arm, Experiment, Scale
from geq.experiment.recipe import SMALL, smoke
from geq.experiment.study import VALIDATION, better

MODELS = {"resnet": "ResNet-18", "mopteq": "linear (MOptEq)", "geq_control": "GEQ, γ = 0", "geq": "GEQ"}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "noisy": ("40 % wrong labels", {"data_override": ["label_noise=0.4"]}),
    "few": ("2,000 images", {"train_size": 2000, "epochs": 20, "evaluate_every": 20}),
}


def arm(model: str, case: str) -> Arm:
    label, changes = CASES[case]
    kind, _, rest = model.partition("_")
    name = f"{{}}_{rest}" if rest else "{}"
    tiny, small = (name.format(f"{kind}_{size}") for size in ("tiny", "small"))
    noise = {key: value for key, value in changes.items() if key == "data_override"}
    return Arm(
        f"{MODELS[model]}, {label}",
        {"smoke": {"model": tiny, **noise}, "small": {"model": small, **changes}},
        control=model == "geq_control",
    )


EXPERIMENT = Experiment(
    name="study-scarcity",
    title="Wrong labels and few images on CIFAR-10",
    source="study 4",
    opening=__doc__ or "",
    arms={f"{case}-{model}": arm(model, case) for case in CASES for model in MODELS},
    metrics=(VALIDATION,),
    claims=tuple(
        better(f"With {label}, GEQ is better than {MODELS[other]}", f"{case}-geq", f"{case}-{other}")
        for case, (label, _) in CASES.items()
        for other in ("geq_control", "mopteq", "resnet")
    ),
    scales={
        "smoke": smoke(Validated()),
        "small": Scale(
            {
                **SMALL,
                "data": "cifar10",
                "train_size": 10_000,
                "validation": 5000,
                "epochs": 6,
                "evaluate_every": 6,
            },
            "10,000 training images of cifar10 and 6 epochs, or 2,000 and 20, judged by 5,000 others",
            (Validated(),),
            seeds=3,
        ),
    },
)
