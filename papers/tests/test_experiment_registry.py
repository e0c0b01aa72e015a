"""Every experiment is whole: its runs can be planned and their networks built, its claims can be tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from geq.data.dataset import Statistics
from geq.errors import OptionError
from geq.training.setup import DataDescription, build_model
from geq_papers.experiment.experiment import SCALES, Experiment
from geq_papers.experiment.experiment_registry import EXPERIMENTS, PAPERS, STUDY, find_experiment
from geq_papers.experiment.plan import grouped, plan
from geq_papers.experiment.record import read_records
from geq_papers.experiment.run_time import expected_seconds

SHAPES = {
    "digits": ((1, 8, 8), 10),
    "cifar10": ((3, 32, 32), 10),
    "cifar100": ((3, 32, 32), 100),
    "imagenette": ((3, 256, 256), 10),
    "imagenet100": ((3, 256, 256), 100),
    "imagenet": ((3, 224, 224), 1000),
    "camvid": ((3, 180, 240), 11),
    "cityscapes": ((3, 1024, 2048), 19),
}
RESULTS = Path(__file__).parents[2] / "results"
EACH = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))


def test_all_tables_are_there() -> None:
    assert set(PAPERS) == {
        *(f"geq-{name}" for name in ("table-1a", "table-1b", "table-2a", "table-2b", "table-3", "table-5")),
        *(f"geq-figure-{number}" for number in (2, 3, 4)),
        *("kerdeq-table-3", "kerdeq-figure-3"),
        *(f"opteq-table-{number}" for number in (3, 4, 5, 7, 8, 9, 10)),
    }
    with pytest.raises(OptionError, match="did you mean 'geq-table-1a'"):
        find_experiment("geq-tabel-1a")


@EACH
def test_opening(experiment: Experiment) -> None:
    """It opens with its command, the time, and what the paper reports."""
    assert f"geq reproduce {experiment.name} --scale small" in experiment.opening
    assert "Time: " in experiment.opening
    assert experiment.name in STUDY or re.search("The paper (reports|shows)", experiment.opening)
    assert set(experiment.scales) == ({"smoke", "small"} if experiment.name in STUDY else set(SCALES))


@EACH
def test_claims_agree_with_the_published_figures(experiment: Experiment) -> None:
    for claim in experiment.claims:
        figures = [experiment.published.get(arm, {}).get(claim.metric) for arm in claim.arms]
        if claim.published_difference is None:
            assert None in figures
            continue
        assert figures[0] is not None
        assert figures[1] is not None
        sign = -1 if claim.lower_is_better else 1
        assert claim.published_difference == pytest.approx(sign * (figures[0][0] - figures[1][0]), abs=1e-6)


@EACH
def test_every_geq_comparison_has_its_control(experiment: Experiment) -> None:
    if experiment.name.startswith("opteq"):
        pytest.skip("no Gaussian")
    if experiment.name == "study-full-cifar100":
        pytest.skip("its protocol has four arms, and the control on CIFAR-10 only")
    for scale in experiment.scales:
        controls = [arm for arm in experiment.arms_at(scale) if experiment.arms[arm].control]
        assert len(controls) == 1 or experiment.name in STUDY
        assert controls
    judged = {arm for claim in experiment.claims if claim.ours for arm in claim.arms}
    assert set(controls) & judged


ANSWERS = {
    *("study-robustness", "study-final-cifar10", "study-final-cifar100"),
    *("study-power-cifar10", "study-power-cifar100"),
    *("study-full-cifar10", "study-full-cifar100", "study-full-length"),
    *(f"study-restoration-{damage}" for damage in ("impulses", "salt-and-pepper", "blocks", "noise")),
}
"""They choose nothing, and show the networks as they are on test images."""
CHOICES = {name: one for name, one in STUDY.items() if name not in ANSWERS}


@pytest.mark.parametrize("experiment", CHOICES.values(), ids=list(CHOICES))
def test_the_study_chooses_by_validation_images(experiment: Experiment) -> None:
    for job in plan(experiment, "small", 1, "runs"):
        assert job.options.validation == 5000
    assert not any(claim.metric.startswith("test_") for claim in experiment.claims)


@EACH
@pytest.mark.parametrize("scale", SCALES)
def test_the_networks_can_be_built(experiment: Experiment, scale: str) -> None:
    """... with the data's shape; on the meta device, where the large ones cost nothing."""
    if scale not in experiment.scales:
        pytest.skip("a study has no such scale")
    for work in grouped(plan(experiment, scale, 1, "runs")):  # type: ignore[arg-type]
        options = work.options
        shape, classes = SHAPES[options.data]
        if "damage" in options.data_override:
            classes = shape[0]  # the colours of an image are what a restorer gives
        if options.data_override.get("image_size") == 64:
            shape = (3, 64, 64)
        names = tuple(map(str, range(classes)))
        description = DataDescription(
            options.data, names, Statistics((0.5,) * shape[0], (0.5,) * shape[0]), shape
        )
        if scale == "paper":
            with torch.device("meta"):
                model = build_model(options, description)
        else:
            model = build_model(options, description)
        assert model.num_classes == classes


LENGTH = {"epochs", "evaluate_every"}
ABOUT = {
    "study-collapse": {"decayed": {"decay_all"}, "learned-decayed": {"decay_all"}},
    "study-full-length": {"geq-long": LENGTH},
    "study-length": {"control-long": LENGTH, "geq-long": LENGTH},
}
"""Arms that are about how a network is trained."""


FULL = {"study-full-cifar10", "study-full-cifar100", "study-full-length"}
"""Trained to the end."""


@EACH
def test_arms_are_trained_alike_and_matched(experiment: Experiment) -> None:
    jobs = plan(experiment, "small", 1, "runs")
    differing = {"model", "override", "gradient", "steps", "regulariser", "regulariser_weight", "name"}
    for job in jobs:
        mapping, first = (one.options.as_mapping() for one in (job, jobs[0]))
        unlike = {name for name in mapping if name not in differing and mapping[name] != first[name]}
        assert unlike <= ABOUT.get(experiment.name, {}).get(job.arm, set())
    limit = 3 * 3600 if experiment.name in FULL else 600
    assert all(expected_seconds(job.options) <= limit for job in jobs)


def test_trainings_are_shared() -> None:
    jobs = [
        job
        for name in ("geq-table-1a", "geq-figure-2", "geq-figure-3")
        for job in plan(EXPERIMENTS[name], "small", 2, "runs")
    ]
    works = grouped(jobs)
    assert len(works) == 2 * 5
    assert len({job.config_hash for job in works[-1].jobs}) == len(works[-1].jobs)
    assert len(jobs) == 2 * (5 + 4 + 3)


POWER = {"study-power-cifar10", "study-power-cifar100"}
FRESH = {
    "study-confirmation": range(10, 18),
    **dict.fromkeys(sorted(POWER), range(20, 32)),
    **{name: range(50, 55) for name in STUDY if name.startswith("study-restoration")},
    **dict.fromkeys(("study-full-cifar10", "study-full-cifar100"), range(40, 43)),
}
TOGETHER = (POWER, FULL, {name for name in STUDY if name.startswith("study-restoration")})
"""Groups of experiments that share seeds, and have different data or trainings."""
"""Experiments that confirm, with seeds of their own; the two on table 1 have different data."""


@pytest.mark.parametrize("name", FRESH)
def test_a_confirmation_has_seeds_that_no_other_experiment_was_seen_with(name: str) -> None:
    confirming = EXPERIMENTS[name]
    seeds = {job.seed for job in plan(confirming, "small", confirming.scale("small").seeds, "runs")}
    assert seeds == set(FRESH[name])
    others = [
        record
        for path in (RESULTS / "small").glob("*.jsonl")
        for record in read_records(path)[0]
        if record.experiment != name and not any({record.experiment, name} <= group for group in TOGETHER)
    ]
    assert others
    assert not seeds & {record.seed for record in others}


def test_a_confirmation_trains_what_it_confirms() -> None:
    """The same trainings but for the seed."""

    def trainings(name: str) -> set[str]:
        jobs = plan(EXPERIMENTS[name], "small", 1, "runs")
        return {str(job.options.name).rpartition("-seed")[0] for job in jobs if job.arm != "resnet"}

    assert trainings("study-confirmation") == trainings("study-label-noise")
