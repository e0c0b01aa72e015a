"""Every experiment by name."""

from __future__ import annotations

from geq.errors import unknown_name
from geq_papers.experiment import (
    geq_figure_2,
    geq_figure_3,
    geq_figure_4,
    geq_table_1a,
    geq_table_1b,
    geq_table_2a,
    geq_table_2b,
    geq_table_3,
    geq_table_5,
    kerdeq_figure_3,
    kerdeq_table_3,
    opteq_table_3,
    opteq_table_4,
    opteq_table_5,
    opteq_table_7,
    opteq_table_8,
    opteq_table_9,
    opteq_table_10,
    study_architecture,
    study_collapse,
    study_confirmation,
    study_feedback,
    study_few_images,
    study_final_cifar10,
    study_final_cifar100,
    study_full,
    study_gamma,
    study_label_noise,
    study_length,
    study_power,
    study_restoration,
    study_robustness,
    study_scale,
    study_weights,
)
from geq_papers.experiment.experiment import Experiment

_PAPERS = (
    geq_table_1a,
    geq_table_1b,
    geq_table_2a,
    geq_table_2b,
    geq_table_3,
    geq_table_5,
    geq_figure_2,
    geq_figure_3,
    geq_figure_4,
    kerdeq_table_3,
    kerdeq_figure_3,
    opteq_table_3,
    opteq_table_4,
    opteq_table_5,
    opteq_table_7,
    opteq_table_8,
    opteq_table_9,
    opteq_table_10,
)

_STUDY = (
    study_collapse,
    study_feedback,
    study_gamma,
    study_robustness,
    study_weights,
    study_label_noise,
    study_confirmation,
    study_few_images,
    study_scale,
    study_length,
    study_architecture,
    study_final_cifar10,
    study_final_cifar100,
)

PAPERS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _PAPERS}
"""Tables and figures, in the order of the papers."""

STUDY: dict[str, Experiment] = {
    one.name: one
    for one in (
        *(module.EXPERIMENT for module in _STUDY),
        *(study_power.CIFAR10, study_power.CIFAR100),
        *study_restoration.EXPERIMENTS,
        *(study_full.CIFAR10, study_full.CIFAR100, study_full.LENGTH),
    )
}
"""Our own questions."""

EXPERIMENTS: dict[str, Experiment] = {**PAPERS, **STUDY}

SUPERSEDED: dict[tuple[str, str, str], str] = {
    ("geq-table-1a", "geq", "mopteq"): "study-power-cifar10",
    ("geq-table-1b", "geq", "mopteq"): "study-power-cifar100",
    ("study-label-noise", "geq", "control"): "study-confirmation",
}
"""Experiment, better and worse arm of a claim -> the experiment that asks it again, of seeds that nobody had
seen. As soon as that one has decided, the first answer is retired.
"""

GROUPS: dict[str, dict[str, Experiment]] = {"all": PAPERS, "study": STUDY}
"""Names that stand for several."""


def find_experiment(name: str) -> Experiment:
    """An experiment; an unknown name is an error that names the nearest one."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
