"""GEQ against MOptEq and its γ = 0 control in the papers' shape, with twelve fresh seeds.

Three to five seeds left table 1 undecided, with differences as large as the papers'. These experiments train
the same networks in the same way with seeds that no other experiment has. The claims and the number of seeds
were committed before the first run; ``decisions/0013-deciding-the-papers-claims.md`` is the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from geq_papers.experiment.experiment import Experiment
from geq_papers.experiment.geq_arms import ACCURACY, PARAMETERS
from geq_papers.experiment.geq_table_1a import EXPERIMENT as TABLE_1A
from geq_papers.experiment.geq_table_1b import EXPERIMENT as TABLE_1B
from geq_papers.experiment.study_arms import TRAIN_LOSS

SEEDS = 12
FIRST_SEED = 20
"""Other experiments count from 0 (at most five seeds) or from 10 (eight)."""
ARMS = ("mopteq", "control", "geq")

OPENING = """{title}: GEQ, MOptEq and γ = 0, twelve fresh seeds.

    geq reproduce {name} --scale small

Time: 5 to 7 minutes of one core for a run at scale small, 4 hours for all of them.

The test images are used once for each network, at the end of its training.
"""


def power(table: Experiment, data: str) -> Experiment:
    """Return the arms of a table that its main claim compares, with twelve fresh seeds."""
    name, title = f"study-power-{data}", f"{table.title}, fresh seeds"
    small = table.scales["small"]
    recipe: Mapping[str, Any] = {**small.recipe, "evaluate_every": small.recipe["epochs"]}
    return Experiment(
        name=name,
        title=title,
        source=f"{table.source}, twelve seeds",
        opening=OPENING.format(title=title, name=name),
        arms={arm: table.arms[arm] for arm in ARMS},
        metrics=(ACCURACY, PARAMETERS, TRAIN_LOSS),
        published={arm: figures for arm, figures in table.published.items() if arm in ARMS},
        claims=tuple(
            replace(claim, seeds=SEEDS)
            for claim in table.claims
            if (claim.better_arm, claim.worse_arm) in (("geq", "mopteq"), ("geq", "control"))
        ),
        scales={
            "smoke": table.scales["smoke"],
            "small": replace(small, recipe=recipe, seeds=SEEDS, first_seed=FIRST_SEED),
        },
    )


CIFAR10 = power(TABLE_1A, "cifar10")
CIFAR100 = power(TABLE_1B, "cifar100")
