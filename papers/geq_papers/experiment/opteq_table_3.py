"""OptEq, table 3: α and the two ways to regularise by decorrelation, against a plain DNN, on CIFAR-10.

    geq reproduce opteq-table-3 --scale small

Time: 1 to 3 minutes of one core for a run at scale small, 20 minutes for a seed of all arms; at
scale paper two weeks of one GPU for a seed.

The paper reports (accuracy in %, 199k parameters) for α = 0.01, 0.1, 0.4, 0.8, 1.0: without regulariser
58.4, 56.8, 86.9, 87.4, 87.2; with SAM (†) 72.7, 61.5, 86.5, 87.0, 87.7; in the problem (*) 72.6, 60.0,
88.0, 87.6, 87.5; the DNN 82.7. With λ‖z‖₁, λ = 0.01, 0.15, 0.5: 86.4, 87.7, 86.9; with λ‖z‖², λ = 0.01, 1,
10: 87.3, 87.6, 86.7.
"""

from __future__ import annotations

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Arm, Experiment, Metric
from geq_papers.experiment.geq_arms import ACCURACY
from geq_papers.experiment.measurement import FeatureSize
from geq_papers.experiment.opteq_arms import ALPHAS, EVERYWHERE, deep
from geq_papers.experiment.training_recipe import paper, sizes, small, smoke

KEY = ACCURACY.key
ROWS = {
    "plain": (58.4, 56.8, 86.9, 87.4, 87.2),
    "sam": (72.7, 61.5, 86.5, 87.0, 87.7),
    "problem": (72.6, 60.0, 88.0, 87.6, 87.5),
}
LABELS = {"plain": "no regulariser", "sam": "decorrelation†", "problem": "decorrelation*"}
AT_SMALL = {"plain": (0.1, 0.8, 1.0), "sam": (0.8, 1.0), "problem": (0.8, 1.0)}


def arm(row: str, alpha: float) -> Arm:
    scales = EVERYWHERE if alpha == 0.8 else ("small", "paper") if alpha in AT_SMALL[row] else ("paper",)
    label = f"{LABELS[row]}, α = {alpha:g}"
    if row == "plain":
        return deep(label, scales, alpha)
    return deep(label, scales, alpha, "†" if row == "sam" else "*", "decorrelation")


NORMS = {
    "l1-0.01": ("sparsity", 0.01, "0.01‖z‖₁", 86.4),
    "l1-0.15": ("sparsity", 0.15, "0.15‖z‖₁", 87.7),
    "l1-0.5": ("sparsity", 0.5, "0.5‖z‖₁", 86.9),
    # The regulariser of the library is ½‖z‖², the table's ‖z‖².
    "l2-0.01": ("decay", 0.02, "0.01‖z‖²", 87.3),
    "l2-1": ("decay", 2.0, "1‖z‖²", 87.6),
    "l2-10": ("decay", 20.0, "10‖z‖²", 86.7),
}
MIDDLE = ("l1-0.15", "l2-1")

EXPERIMENT = Experiment(
    name="opteq-table-3",
    title="α and feature regularisers of Deep OptEq on CIFAR-10",
    source="OptEq table 3",
    opening=__doc__ or "",
    arms={
        "dnn": Arm("DNN", sizes("dnn_tiny", "dnn_small", "paper/dnn_cifar10_199k")),
        **{f"{row}-{alpha:g}": arm(row, alpha) for row in ROWS for alpha in ALPHAS},
        **{
            name: deep(label, EVERYWHERE if name in MIDDLE else ("paper",), 0.8, "*", kind, weight)
            for name, (kind, weight, label, _) in NORMS.items()
        },
    },
    metrics=(
        ACCURACY,
        Metric("mean_abs", "mean |z|", "", 3, lower_is_better=True),
        Metric("mean_square", "mean z²", "", 3, lower_is_better=True),
    ),
    published={
        "dnn": {KEY: (82.7, None)},
        **{
            f"{row}-{alpha:g}": {KEY: (value, None)}
            for row, values in ROWS.items()
            for alpha, value in zip(ALPHAS, values, strict=True)
        },
        **{name: {KEY: (accuracy, None)} for name, (_, _, _, accuracy) in NORMS.items()},
    },
    claims=(
        Claim("Deep OptEq is better than a DNN of its size", "plain-0.8", "dnn", KEY, 4.7),
        Claim("α = 0.8 is better than 0.1", "plain-0.8", "plain-0.1", KEY, 30.6),
        Claim("In the problem, decorrelation helps (α = 0.8)", "problem-0.8", "plain-0.8", KEY, 0.2),
        Claim("By SAM, decorrelation helps (α = 1)", "sam-1", "plain-1", KEY, 0.5),
        Claim(
            "λ‖z‖₁ in the problem makes z smaller",
            "l1-0.15",
            "plain-0.8",
            "mean_abs",
            lower_is_better=True,
        ),
        Claim("λ‖z‖₁ with λ = 0.15 helps", "l1-0.15", "plain-0.8", KEY, 0.3),
        Claim("λ‖z‖² with λ = 1 helps", "l2-1", "plain-0.8", KEY, 0.2),
    ),
    scales={
        "smoke": smoke(FeatureSize(100)),
        "small": small("cifar10", 4_000, 6, FeatureSize(), note="10 unrolled steps", evaluate_every=6),
        "paper": paper("CIFAR-10, 200 epochs, 20 unrolled steps, one GPU for each run", FeatureSize()),
    },
    axes={f"α, {LABELS[row]}": {f"{row}-{alpha:g}": alpha for alpha in ALPHAS} for row in ROWS},
)
