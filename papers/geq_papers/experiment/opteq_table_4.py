"""OptEq, table 4: Deep OptEq against Neural ODEs and monotone DEQs on CIFAR-10.

    geq reproduce opteq-table-4 --scale small

Time: 1 to 6 minutes of one core for a run at scale small; at scale paper two weeks of one GPU for a seed. At
scale small the monotone DEQ works on every second pixel, Deep OptEq on every fourth.

The paper reports (accuracy in %): Deep OptEq with 162k parameters 85.7 without regulariser, 86.0 with
decorrelation†, 87.4 with HSIC*, with 1.4M and decorrelation* 91.0; Neural ODE (172k) 53.7, augmented 60.6;
monotone DEQ (172k) 74.1, large (854k) 82.5.
"""

from __future__ import annotations

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Arm, Experiment
from geq_papers.experiment.geq_arms import ACCURACY, PARAMETERS
from geq_papers.experiment.opteq_arms import EVERYWHERE, deep
from geq_papers.experiment.training_recipe import paper, small, smoke

KEY = ACCURACY.key
PRESET = "paper/opteq_cifar10_162k"
SMALL_MON = ["stride=2", "pool=2", "tol=0.01", "gradient_tol=0.01"]


def baseline(label: str, model: str, small: str | None, tiny: str | None, override: list[str]) -> Arm:
    """Trained as Deep OptEq is; cheaper at scale small, where it would not end in ten minutes."""
    at_paper = {"preset": PRESET, "model": model, "gradient": None, "steps": None, "regulariser": None}
    return Arm(
        label,
        {
            **({} if tiny is None else {"smoke": {"model": tiny}}),
            **({} if small is None else {"small": {"model": small, "override": override}}),
            "paper": at_paper,
        },
    )


EXPERIMENT = Experiment(
    name="opteq-table-4",
    title="Implicit models on CIFAR-10",
    source="OptEq table 4",
    opening=__doc__ or "",
    arms={
        "plain": deep("Deep OptEq", EVERYWHERE, preset=PRESET),
        "decorrelation": deep(
            "Deep OptEq, decorrelation†", EVERYWHERE, 0.8, "†", "decorrelation", preset=PRESET
        ),
        "hsic": deep("Deep OptEq, HSIC*", EVERYWHERE, 0.8, "*", "hsic", preset=PRESET),
        "large": deep(
            "Deep OptEq (1.4M), decorrelation*",
            ("paper",),
            0.8,
            "*",
            "decorrelation",
            preset="paper/opteq_cifar10_1m4",
        ),
        "node": baseline("Neural ODE", "node_cifar_172k", "node_small", "node_tiny", ["steps=1"]),
        "augmented": baseline("augmented Neural ODE", "node_augmented_cifar_172k", None, None, []),
        "mon": baseline("monotone DEQ", "mon_cifar_172k", "mon_small", "mon_tiny", SMALL_MON),
        "mon_large": baseline("monotone DEQ (854k)", "mon_cifar_854k", None, None, []),
    },
    metrics=(ACCURACY, PARAMETERS),
    published={
        "plain": {KEY: (85.7, None)},
        "decorrelation": {KEY: (86.0, None)},
        "hsic": {KEY: (87.4, None)},
        "large": {KEY: (91.0, None)},
        "node": {KEY: (53.7, None)},
        "augmented": {KEY: (60.6, None)},
        "mon": {KEY: (74.1, None)},
        "mon_large": {KEY: (82.5, None)},
    },
    claims=(
        Claim("Deep OptEq is better than a Neural ODE", "plain", "node", KEY, 32.0),
        Claim("Deep OptEq is better than an augmented Neural ODE", "plain", "augmented", KEY, 25.1),
        Claim("Deep OptEq is better than a monotone DEQ", "plain", "mon", KEY, 11.6),
        Claim("HSIC helps", "hsic", "plain", KEY, 1.7),
        Claim("Decorrelation by SAM helps", "decorrelation", "plain", KEY, 0.3),
    ),
    scales={
        "smoke": smoke(),
        "small": small(
            "cifar10",
            3_000,
            5,
            note="10 unrolled steps; monotone DEQ on every second pixel and to a residual of 1e-2; "
            "Neural ODE in one step of RK4",
            evaluate_every=6,  # at the end only: 10,000 test images cost more than an epoch
        ),
        "paper": paper("CIFAR-10, 200 epochs, one GPU for each run"),
    },
)
