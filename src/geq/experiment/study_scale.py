"""Study, question 5: does the Gaussian gain with size?

    geq reproduce study-scale --scale small

Time: 1 to 9 minutes of one core for a run at scale small, 20 minutes for a seed.

GEQ and its γ = 0 control at about 20, 50 and 200 thousand parameters, with the same images and epochs.
"""

from __future__ import annotations

from geq.experiment.arm import PARAMETERS
from geq.experiment.equilibrium_measurement import Equilibria
from geq.experiment.experiment import Arm, Experiment
from geq.experiment.study import FEEDBACK, VALIDATION, better, control_arm, geq_arm, studied

NARROW = ("stem_channels=[12,16]", "mid_channels=[16,16,16]", "out_channels=24", "hidden=16")
LARGE = {"model": "geq_small_200k"}
SIZES = {"20k": 20, "50k": 50, "200k": 200}


def large(label: str, *override: str, control: bool = False) -> Arm:
    return Arm(label, {"small": {**LARGE, "override": list(override)}}, control=control)


EXPERIMENT = Experiment(
    name="study-scale",
    title="GEQ and its control at three sizes",
    source="study 5",
    opening=__doc__ or "",
    arms={
        "control-20k": Arm("γ = 0, 20k", {"small": control_arm(*NARROW).options["small"]}, control=True),
        "geq-20k": Arm("GEQ, 20k", {"small": geq_arm("", *NARROW).options["small"]}),
        "control-50k": control_arm(label="γ = 0, 50k"),
        "geq-50k": geq_arm("GEQ, 50k"),
        "control-200k": large("γ = 0, 200k", "gamma=zero", control=True),
        "geq-200k": large("GEQ, 200k"),
    },
    metrics=(VALIDATION, PARAMETERS, FEEDBACK),
    claims=tuple(
        better(f"At {size} the Gaussian is better than γ = 0", f"geq-{size}", f"control-{size}")
        for size in SIZES
    ),
    scales=studied("cifar10", 8_000, 6, Equilibria()),
    axes={
        "thousand parameters, GEQ": {f"geq-{size}": number for size, number in SIZES.items()},
        "thousand parameters, γ = 0": {f"control-{size}": number for size, number in SIZES.items()},
    },
)
