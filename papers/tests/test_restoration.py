"""The restoration and full-length experiments: matched arms, AUROC by hand, runs that are reported."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from geq.data.dataset import Statistics
from geq.training.preset import preset_options
from geq.training.setup import DataDescription, build_model
from geq_papers.command.report import main as report
from geq_papers.experiment.experiment_registry import EXPERIMENTS
from geq_papers.experiment.outlier_detection import detection
from geq_papers.experiment.plan import Work, arm_options, plan, usable
from geq_papers.experiment.record import add_record, read_records, record_path
from geq_papers.experiment.restoration_measurement import Restoration
from geq_papers.experiment.study_restoration import DAMAGES
from geq_papers.experiment.train_and_record import finish
from saved_runs import saved_run

NAMES = [f"study-restoration-{damage.replace('_', '-')}" for damage in DAMAGES]


def parameters(name: str, arm: str) -> int:

    options = arm_options(EXPERIMENTS[name], "small", arm)
    colours = Statistics((0.0,) * 3, (1.0,) * 3)
    data = DataDescription("cifar10", ("red", "green", "blue"), colours, (3, 32, 32))
    return build_model(options, data).parameter_count()


def test_the_arms_have_the_same_parameters() -> None:
    counts = {arm: parameters(NAMES[0], arm) for arm in EXPERIMENTS[NAMES[0]].arms}
    assert counts.pop("dncnn-time") > 2 * counts["control"]
    assert max(counts.values()) / min(counts.values()) < 1.03, counts


def test_the_damages_differ_in_their_data_alone() -> None:
    whole = [EXPERIMENTS[name] for name in NAMES]
    for arm in whole[0].arms:
        options = [arm_options(one, "small", arm).as_mapping() for one in whole]
        damages = {tuple(one.pop("data_override")) for one in options}
        assert len(damages) == len(NAMES)
        assert all(one == options[0] for one in options)


def test_detection_by_hand() -> None:
    """Of the four pairs of a damaged and a sound pixel three are in order, and one is a tie."""
    weights = torch.tensor([0.9, 0.1, 0.5, 0.5]).view(1, 1, 2, 2)
    damaged = torch.tensor([False, True, False, True]).view(1, 2, 2)
    assert detection(weights, damaged) == pytest.approx(87.5)


def test_the_measurement_knows_what_a_network_has(tmp_path: Path) -> None:
    options = {"data": "digits", "data_override": {"damage": "impulses"}}
    found = {}
    for name, changes in {
        "geq": {},
        "control": {"override": {"gamma": "zero"}},
        "linear": {"override": {"kernel": "linear"}},
        "convolutions": {"override": {"kernel": "convolutions"}},
    }.items():
        run = saved_run(tmp_path, name, model="restorer_tiny", **options, **changes)
        found[name] = Restoration(images=40).measure(run)
    assert found["control"]["beta_auroc"] == found["control"]["beta_auroc_last"] == 50
    assert found["geq"]["beta_auroc"] != 50
    assert 0 < found["geq"]["beta_mean"] < 1 == found["control"]["beta_mean"]  # type: ignore[operator]
    assert all("feedback" in found[name] for name in ("geq", "control", "linear"))
    assert "beta_auroc" not in found["linear"]
    assert set(found["convolutions"]) == {"damaged_psnr"}
    assert len({one["damaged_psnr"] for one in found.values()}) == 1, "all see the same damage"


@pytest.mark.parametrize(
    ("name", "arms"),
    [
        ("study-restoration-noise", ("dncnn", "control")),
        ("study-full-cifar100", ("mopteq", "geq-papers")),
    ],
)
def test_runs_are_recorded_and_reported(name: str, arms: tuple[str, ...], tmp_path: Path) -> None:
    experiment = EXPERIMENTS[name]
    path = record_path(tmp_path / "results", "smoke", name)
    for job in plan(experiment, "smoke", 1, tmp_path / "runs"):
        if job.arm in arms:
            finish(Work((job,)))
            record = job.made()
            assert record is not None
            add_record(path, record)
    records, complaints = read_records(path)
    used, outdated = usable(experiment, "smoke", records)
    assert (complaints, outdated, [one.arm for one in used]) == (
        [],
        [],
        [a for a in experiment.arms if a in arms],
    )
    missing = {metric.key for metric in experiment.metrics} - {key for one in used for key in one.figures}
    assert missing <= {"beta_mean"}, missing
    page, tables = tmp_path / "report.html", tmp_path / "tables"
    assert (
        report([str(tmp_path / "results"), "--output", str(page), "--markdown", str(tables), "--quiet"]) == 0
    )
    text = page.read_text(encoding="utf-8")
    assert experiment.title in text
    assert "1 paired seed; a verdict needs" in text or "no seed was run" in text


def test_full_runs_have_the_recipe_of_the_networks_that_ship() -> None:
    preset = preset_options("ship/geq_cifar10")
    for name in ("study-full-cifar10", "study-full-cifar100"):
        for job in plan(EXPERIMENTS[name], "small", 1, "runs"):
            found = job.options
            for key in preset.keys() - {"model", "data", "epochs"}:
                assert getattr(found, key) == preset[key], key
            assert (found.epochs, found.train_size, found.validation) == (20, None, 0)


def test_length_is_one_more_training() -> None:
    """The others are those of study-full-cifar10."""

    def trainings(name: str) -> set[str]:
        return {str(job.options.name) for job in plan(EXPERIMENTS[name], "small", 1, "runs")}

    assert len(trainings("study-full-length") - trainings("study-full-cifar10")) == 1


def test_the_protocol_decides_how_many_seeds() -> None:
    for name in NAMES:
        experiment = EXPERIMENTS[name]
        assert experiment.scale("small").seeds == 5
        assert {claim.seeds for claim in experiment.claims} == {5}
        assert ("beta_auroc" in {claim.metric for claim in experiment.claims}) == ("noise" not in name)
    assert {claim.seeds for claim in EXPERIMENTS["study-power-cifar10"].claims} == {12}
    assert {claim.seeds for claim in EXPERIMENTS["study-full-cifar10"].claims} == {3}
    assert len(EXPERIMENTS["study-full-cifar10"].claims) == 7
    assert len(EXPERIMENTS["study-power-cifar10"].claims) == 2
