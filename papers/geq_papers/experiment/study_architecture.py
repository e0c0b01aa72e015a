"""Study, question 6: what to spend fifty thousand parameters on.

    geq reproduce study-architecture --scale small

Time: 1 to 6 minutes of one core for a run at scale small, 40 minutes for a seed.

The papers' network is a stem, equilibria side by side, and a head. Behind a stem of two convolutions,
equilibria with little feedback make a shallow network; compared are a deeper stem, fewer and wider branches,
larger maps, stacked equilibria (a cascade) on the same maps, a finer head, stronger feedback,
the head and the stem in a cascade, and how exactly the equilibrium is solved and differentiated. The ResNet
and the MDEQ of the same size show what the best of them has to reach. All have 44 to 51 thousand parameters.
"""

from __future__ import annotations

from geq_papers.experiment.equilibrium_measurement import Equilibria
from geq_papers.experiment.experiment import Arm, Experiment, Metric
from geq_papers.experiment.geq_arms import PARAMETERS, mdeq
from geq_papers.experiment.measurement import Speed
from geq_papers.experiment.study_arms import (
    CASCADE,
    EVALUATIONS,
    FEEDBACK,
    PAPER,
    VALIDATION,
    better,
    control_arm,
    geq_arm,
    small_only,
    studied,
)
from geq_papers.experiment.training_recipe import sizes

THROUGHPUT = Metric("images_per_second", "trained", "images/s", 0)
SHAPES = {
    "stem": (
        "stem of three, two branches",
        ("stem_channels=[16,24,32]", "stem_strides=[1,2,2]", "scales=[8,4]", "mid_channels=[24,24]"),
        48,
    ),
    "one": ("one branch", ("scales=[8]", "mid_channels=[48]"), 72),
    "maps": (
        "maps of 16, 8 and 4",
        ("stem_strides=[1,2]", "scales=[16,8,4]"),
        40,
    ),
}
OPTIONS = {
    "pool": ("head on 2×2 instead of one mean", ("pool=2",)),
    "strong": ("‖W‖ ≤ 1.4", ("bound=1.4",)),
    "phantom": ("phantom gradient", ("gradient=phantom",)),
    "loose": ("solved to 1e-2", ("tol=0.01",)),
}
STEM = ("stem_channels=[16,24,24]", "stem_strides=[1,2,1]")
HEAD = ("pool=2",)
CASCADES = {
    "cascade-pool": ("the cascade, head on 2×2", HEAD, 33),
    "cascade-stem": ("the cascade, stem of three", STEM, 30),
    "cascade-both": ("the cascade, stem of three and head on 2×2", (*STEM, *HEAD), 29),
}


def shaped(label: str, override: tuple[str, ...], channels: int, model: str) -> Arm:
    return small_only(geq_arm(label, *override, f"out_channels={channels}", model=model))


EXPERIMENT = Experiment(
    name="study-architecture",
    title="What fifty thousand parameters are spent on",
    source="study 6",
    opening=__doc__ or "",
    arms={
        "control": control_arm(model=PAPER),
        "geq": geq_arm("side by side, as in the papers", model=PAPER),
        **{name: shaped(*shape, model=PAPER) for name, shape in SHAPES.items()},
        **{name: geq_arm(label, *override, model=PAPER) for name, (label, override) in OPTIONS.items()},
        "cascade": geq_arm("a cascade on maps of 16, 8 and 4"),
        **{name: shaped(*shape, model=CASCADE) for name, shape in CASCADES.items()},
        "cascade-control": control_arm(label="the cascade, γ = 0"),
        "resnet": Arm("ResNet", sizes("resnet_tiny", "resnet_small", None)),
        "mdeq": mdeq("cifar10"),
    },
    metrics=(VALIDATION, PARAMETERS, THROUGHPUT, FEEDBACK, EVALUATIONS),
    claims=(
        better("Side by side the Gaussian is better than γ = 0", "geq", "control"),
        better("A deeper stem helps", "stem", "geq"),
        better("One wide branch is better than three", "one", "geq"),
        better("Larger maps help", "maps", "geq"),
        better("A finer head helps", "pool", "geq"),
        better("The exact gradient is better than the phantom one", "geq", "phantom"),
        better("Solving to 1e-3 is better than to 1e-2", "geq", "loose"),
        better("A cascade is better than side by side", "cascade", "maps"),
        better("In a cascade too a finer head helps", "cascade-pool", "cascade"),
        better("In a cascade too a deeper stem helps", "cascade-stem", "cascade"),
        better("In a cascade both help", "cascade-both", "cascade"),
        better("In a cascade the Gaussian is better than γ = 0", "cascade", "cascade-control"),
        better("A cascade is better than a ResNet", "cascade", "resnet"),
    ),
    scales=studied("cifar10", 8_000, 6, Equilibria(), Speed(images=300)),
)
