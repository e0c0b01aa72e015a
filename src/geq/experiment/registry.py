"""Every experiment by name."""

from __future__ import annotations

from geq.error import unknown_name
from geq.experiment import geq_table_1a
from geq.experiment.experiment import Experiment

_MODULES = (geq_table_1a,)

EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES}
"""In the order of the papers."""


def find_experiment(name: str) -> Experiment:
    """An experiment; an unknown name is an error that names the nearest one."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
