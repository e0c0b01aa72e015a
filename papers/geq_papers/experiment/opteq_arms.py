"""Deep OptEq's arms: an α and a regulariser, used as (†) by SAM iterations or as (*) in the problem.

All of them unroll: 20 iterations at scale paper, as the paper does, and 10 elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from geq_papers.experiment.experiment import Arm, ScaleName

Way = Literal["none", "†", "*"]
PRESET = "paper/opteq_cifar10_199k"
ALPHAS = (0.01, 0.1, 0.4, 0.8, 1.0)
EVERYWHERE: tuple[ScaleName, ...] = ("smoke", "small", "paper")
SMALL_STEPS = {"smoke": 3, "small": 10, "paper": 20}


def deep(
    label: str,
    scales: Iterable[ScaleName],
    alpha: float = 0.8,
    way: Way = "none",
    regulariser: str | None = None,
    weight: float | None = None,
    preset: str = PRESET,
) -> Arm:
    """A Deep OptEq at some scales."""
    models = {"smoke": "deep_opteq_tiny", "small": "deep_opteq_small"}
    found: dict[Any, Any] = {}
    for scale in scales:
        options: dict[str, Any] = {
            "override": [f"alpha={alpha:g}"],
            "gradient": "averaging" if way == "†" else "unrolled",
            "steps": SMALL_STEPS[scale],
            "regulariser": regulariser,
            "regulariser_weight": weight,
        }
        start = {"preset": preset} if scale == "paper" else {"model": models[scale]}
        found[scale] = {**start, **options}
    return Arm(label, found)
