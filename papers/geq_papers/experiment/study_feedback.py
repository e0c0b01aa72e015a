"""Study, question 2: how strong must the feedback be, and is it an equilibrium at all?

    geq reproduce study-feedback --scale small

Time: 3 to 5 minutes of one core for a run at scale small, an hour and a quarter for a seed.

W is kept at ‖W‖ ≤ bound. 0.95 makes the plain iteration contract; up to √2.24 ≈ 1.497 the hidden objective is
strongly convex and the equilibrium unique; beyond, the Gaussian has no certificate (γ = 0 always has).
Compared: bounds, rules that reach the bound or learn how near to come, more mid channels, smaller and larger
weights to start from, weights with a flat spectrum (all singular values alike, so that the bound is reached
in every direction and not in one), the γ = 0 control of several, and the linear kernel. 'Cut' is the
validation accuracy when every equilibrium ends after its first evaluation.
"""

from __future__ import annotations

from geq_papers.experiment.equilibrium_measurement import CutOff, Equilibria
from geq_papers.experiment.experiment import Experiment, Metric
from geq_papers.experiment.study_arms import (
    EVALUATIONS,
    FEEDBACK,
    TRAIN_LOSS,
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
FLAT = ("bound=1.4", "feedback_spectrum=flat")
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
        "full": geq_arm("‖W‖ = 1.4", "constraint=full", "bound=1.4"),
        "learned": geq_arm("‖W‖ learned below 1.49", "constraint=learned", "bound=1.49"),
        "gain": geq_arm("gain of each channel, ‖W‖ ≤ 1.49", "constraint=gain", "bound=1.49"),
        "frobenius": geq_arm("√k‖V‖_F ≤ 1.4", "constraint=frobenius", "bound=1.4"),
        "wide": small_only(
            geq_arm("‖W‖ ≤ 1.4, twice the mid channels (93k)", "bound=1.4", "mid_channels=[32,48,64]")
        ),
        **{
            f"start-{factor:g}": geq_arm(
                f"‖W‖ ≤ 1.4, W starts {words}", "bound=1.4", f"feedback_start={factor:g}"
            )
            for factor, words in STARTS.items()
        },
        "flat": geq_arm("‖W‖ ≤ 1.4, W starts with a flat spectrum", *FLAT),
        **{
            name: control_arm(*bounded(bound), label=f"γ = 0, ‖W‖ ≤ {bound:g}")
            for name, bound in CONTROLS.items()
        },
        "control-flat": control_arm(*FLAT, label="γ = 0, ‖W‖ ≤ 1.4, flat spectrum"),
        "linear": geq_arm("linear (OptEq), ‖W‖ ≤ 0.95", model="opteq_cascade_small"),
    },
    metrics=(VALIDATION, Metric("cut_accuracy", "cut"), LOSS, FEEDBACK, EVALUATIONS, TRAIN_LOSS),
    claims=(
        better("Stronger feedback helps: 1.4 against 0.95", "bound-1.4", "bound-0.95"),
        better("Beyond the certificate it helps more: 2.5 against 1.4", "bound-2.5", "bound-1.4"),
        better("A norm at the bound is better than one below it", "full", "bound-1.4"),
        better("A learned norm is better than a bound", "learned", "bound-1.4"),
        better("Gains of the channels are better than a bound", "gain", "bound-1.4"),
        better("A Frobenius norm is better than a bound", "frobenius", "bound-1.4"),
        better("It is an equilibrium: the cut loses more at 1.4 than at 0.5", "bound-1.4", "bound-0.5", LOSS),
        better("At 1.4 the Gaussian is better than γ = 0", "bound-1.4", "control-1.4"),
        better("At 1.4 the Gaussian fits better than γ = 0", "bound-1.4", "control-1.4", TRAIN_LOSS),
        better("At 2.5 the Gaussian is better than γ = 0", "bound-2.5", "control-2.5"),
        better("Twice the mid channels, 93 thousand parameters, help", "wide", "bound-1.4"),
        better("Feedback that has to grow is better: W starts at a quarter", "start-0.25", "bound-1.4"),
        better("W that starts four times as large is better", "start-4", "bound-1.4"),
        better("A flat spectrum to start from is better", "flat", "bound-1.4"),
        better("With a flat spectrum the Gaussian is better than γ = 0", "flat", "control-flat"),
        better("At 1.4 the Gaussian is better than the linear kernel", "bound-1.4", "linear"),
        better("With a flat spectrum the Gaussian is better than the linear kernel", "flat", "linear"),
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
