"""Study, question 2: how strong must the feedback be, and is it an equilibrium at all?

    geq reproduce study-feedback --scale small

Time: 3 to 5 minutes of one core for a run at scale small, 55 minutes for a seed.

W is kept at ‖W‖ ≤ bound. 0.95 makes the plain iteration contract; up to √2.24 ≈ 1.497 the hidden objective is
strongly convex and the equilibrium unique; beyond, the Gaussian has no certificate (γ = 0 always has).
Compared: bounds, rules that reach the bound or learn how near to come, more mid channels, smaller and larger
weights to start from, and the γ = 0 control at three of the bounds. 'Cut' is the validation accuracy when
every equilibrium ends after its first evaluation.
"""

from __future__ import annotations

from geq.experiment.equilibrium_measurement import CutOff, Equilibria
from geq.experiment.experiment import Experiment, Metric
from geq.experiment.study import (
    EVALUATIONS,
    FEEDBACK,
    VALIDATION,
    better,
    control_arm,
    geq_arm,
    small_only,
    studied,
)

DEFAULT_BOUND = 0.95
BOUNDS = {"bound-0.5": 0.5, "bound-0.95": 0.95, "bound-1.4": 1.4, "bound-2.5": 2.5}
CONTROLS = {"control-0.95": 0.95, "control-1.4": 1.4, "control-2.5": 2.5}
STARTS = {0.25: "at a quarter", 4.0: "four times as large"}
LOSS = Metric("cut_loss", "lost by the cut", "points")


def bounded(bound: float) -> tuple[str, ...]:
    """The default is left unsaid, so that its run is the one of the other studies."""
    return () if bound == DEFAULT_BOUND else (f"bound={bound:g}",)


EXPERIMENT = Experiment(
    name="study-feedback",
    title="Strength of the feedback",
    source="study 2",
    opening=__doc__ or "",
    arms={
        **{name: geq_arm(f"‖W‖ ≤ {bound:g}", *bounded(bound)) for name, bound in BOUNDS.items()},
        "full": geq_arm("‖W‖ = 1.4", "norm=full", "bound=1.4"),
        "learned": geq_arm("‖W‖ learned below 1.49", "norm=learned", "bound=1.49"),
        "gain": geq_arm("gain of each channel, ‖W‖ ≤ 1.49", "norm=gain", "bound=1.49"),
        "frobenius": geq_arm("√k‖V‖_F ≤ 1.4", "norm=frobenius", "bound=1.4"),
        "wide": small_only(
            geq_arm("‖W‖ ≤ 1.4, twice the mid channels", "bound=1.4", "mid_channels=[32,48,64]")
        ),
        **{
            f"start-{factor:g}": geq_arm(
                f"‖W‖ ≤ 1.4, W starts {words}", "bound=1.4", f"feedback_start={factor:g}"
            )
            for factor, words in STARTS.items()
        },
        **{
            name: control_arm(*bounded(bound), label=f"γ = 0, ‖W‖ ≤ {bound:g}")
            for name, bound in CONTROLS.items()
        },
    },
    metrics=(VALIDATION, Metric("cut_accuracy", "cut"), LOSS, FEEDBACK, EVALUATIONS),
    claims=(
        better("Stronger feedback helps: 1.4 against 0.95", "bound-1.4", "bound-0.95"),
        better("Beyond the certificate it helps more: 2.5 against 1.4", "bound-2.5", "bound-1.4"),
        better("A norm at the bound is better than one below it", "full", "bound-1.4"),
        better("A learned norm is better than a bound", "learned", "bound-1.4"),
        better("Gains of the channels are better than a bound", "gain", "bound-1.4"),
        better("It is an equilibrium: the cut loses more at 1.4 than at 0.5", "bound-1.4", "bound-0.5", LOSS),
        better("At 1.4 the Gaussian is better than γ = 0", "bound-1.4", "control-1.4"),
        better("At 2.5 the Gaussian is better than γ = 0", "bound-2.5", "control-2.5"),
        better("Twice the mid channels help", "wide", "bound-1.4"),
        better("Feedback that has to grow is better: W starts at a quarter", "start-0.25", "bound-1.4"),
        better(
            "The Gaussian's lead over γ = 0 is larger at 1.4 than at 0.95",
            "bound-1.4",
            "control-1.4",
            beyond=("bound-0.95", "control-0.95"),
        ),
    ),
    scales=studied("cifar10", 8_000, 6, Equilibria(), CutOff()),
    axes={"bound of ‖W‖": BOUNDS, "bound of ‖W‖, γ = 0": CONTROLS},
)
