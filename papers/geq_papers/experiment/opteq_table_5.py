"""OptEq, table 5: regularisers and α of Deep OptEq on CIFAR-10.

    geq reproduce opteq-table-5 --scale small

Time: 2 to 4 minutes of one core for a run at scale small (α = 0.8 only; three of the eight arms share their
runs with opteq-table-3); at scale paper a month of one GPU for a seed.

The paper reports (accuracy in %, 199k parameters) for α = 0.01, 0.1, 0.4, 0.8, 1.0 what stands in PUBLISHED
below; the best are HSIC† with α = 1 (88.1) and decorrelation* with α = 0.4 (88.0).
"""

from __future__ import annotations

from geq_papers.experiment.claim import Claim
from geq_papers.experiment.experiment import Experiment
from geq_papers.experiment.geq_arms import ACCURACY
from geq_papers.experiment.opteq_arms import ALPHAS, EVERYWHERE, Way, deep
from geq_papers.experiment.training_recipe import paper, small, smoke

KEY = ACCURACY.key
COLUMNS: dict[str, tuple[str, Way, str | None]] = {
    "plain": ("no regulariser", "none", None),
    "decay-sam": ("½‖z‖²†", "†", "decay"),
    "incay-sam": ("incay†", "†", "incay"),
    "incay": ("incay*", "*", "incay"),
    "decorrelation-sam": ("decorrelation†", "†", "decorrelation"),
    "decorrelation": ("decorrelation*", "*", "decorrelation"),
    "hsic-sam": ("HSIC†", "†", "hsic"),
    "hsic": ("HSIC*", "*", "hsic"),
}
PUBLISHED = {
    "plain": (58.4, 56.8, 86.9, 87.4, 87.2),
    "decay-sam": (69.4, 61.9, 87.3, 87.3, 87.4),
    "incay-sam": (75.0, 63.2, 78.4, 87.3, 87.0),
    "incay": (64.9, 64.7, 87.7, 87.5, 87.6),
    "decorrelation-sam": (72.7, 61.5, 86.5, 87.0, 87.7),
    "decorrelation": (72.6, 60.0, 88.0, 87.6, 87.5),
    "hsic-sam": (70.6, 66.1, 85.1, 87.6, 88.1),
    "hsic": (72.2, 64.5, 85.5, 87.5, 87.9),
}

EXPERIMENT = Experiment(
    name="opteq-table-5",
    title="Regularisers of Deep OptEq on CIFAR-10",
    source="OptEq table 5",
    opening=__doc__ or "",
    arms={
        f"{name}-{alpha:g}": deep(
            f"{label}, α = {alpha:g}", EVERYWHERE if alpha == 0.8 else ("paper",), alpha, way, kind
        )
        for name, (label, way, kind) in COLUMNS.items()
        for alpha in ALPHAS
    },
    metrics=(ACCURACY,),
    published={
        f"{name}-{alpha:g}": {KEY: (value, None)}
        for name, values in PUBLISHED.items()
        for alpha, value in zip(ALPHAS, values, strict=True)
    },
    claims=(
        *(
            Claim(f"{COLUMNS[name][0]} helps (α = 0.8)", f"{name}-0.8", "plain-0.8", KEY, difference)
            for name, difference in (
                ("incay", 0.1),
                ("decorrelation", 0.2),
                ("hsic-sam", 0.2),
                ("hsic", 0.1),
            )
        ),
        Claim(
            "In the problem, decorrelation does more than by SAM (α = 0.8)",
            "decorrelation-0.8",
            "decorrelation-sam-0.8",
            KEY,
            0.6,
        ),
        Claim("HSIC† is best with α = 1", "hsic-sam-1", "plain-1", KEY, 0.9),
    ),
    scales={
        "smoke": smoke(),
        "small": small("cifar10", 4_000, 6, note="10 unrolled steps, α = 0.8"),
        "paper": paper("CIFAR-10, 200 epochs, 20 unrolled steps, one GPU for each run"),
    },
    axes={f"α, {COLUMNS[name][0]}": {f"{name}-{a:g}": a for a in ALPHAS} for name in COLUMNS},
)
