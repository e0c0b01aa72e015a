"""Measurements on finished runs, with fresh weights."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import torch

from geq.model.network import Network
from geq.training.environment import short_commit
from geq.training.run_folder import RunFolder
from geq.training.setup import evaluation_loader, open_split
from geq_papers.experiment.experiment_registry import EXPERIMENTS
from geq_papers.experiment.measurement import Calibration, FeatureSize, Saliency, Speed, UnseenAccuracy
from geq_papers.experiment.plan import plan_job
from geq_papers.experiment.train_and_record import cpu_name, make_record, solver_figures
from saved_runs import saved_run, write_cifar10


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return saved_run(tmp_path, "run", model="geq_tiny", data="digits")


def test_feature_size(run: RunFolder) -> None:
    found = FeatureSize(images=250).measure(run)
    model = Network.from_pretrained(run.model).eval()
    test = open_split(run.options(), "test")
    images, _ = next(iter(evaluation_loader(test, statistics=run.data().statistics)))
    with torch.no_grad():
        inputs = model.inputs_of_equilibria(images)
        states = [layer(inputs[name]).flatten() for name, layer in model.equilibria().items()]
    z = torch.cat(states).double()
    assert found["mean_abs"] == pytest.approx(float(z.abs().mean()), rel=1e-4)
    assert found["mean_square"] == pytest.approx(float(z.square().mean()), rel=1e-4)


def test_feature_size_needs_equilibria(tmp_path: Path) -> None:
    assert FeatureSize().measure(saved_run(tmp_path, "run", model="resnet_tiny", data="digits")) == {}


def test_saliency(run: RunFolder) -> None:
    measure = Saliency(images=50, share=0.25)
    chosen = measure.top(torch.tensor([[3.0, 1.0, 2.0, 0.0, 5.0, 4.0, -1.0, 2.5]]))
    assert chosen.tolist() == [[0, 0, 0, 0, 1, 1, 0, 0]]
    found = measure.measure(run)
    assert found["cam_deletion"] is not None
    assert -100 <= found["cam_deletion"] <= 100
    assert found["cam_focus"] is not None
    assert 25 <= found["cam_focus"] <= 100  # at least what is spread evenly
    assert found == measure.measure(run)


def test_speed(run: RunFolder) -> None:
    found = Speed(images=64, repeats=1).measure(run)
    milliseconds = found["inference_ms"] + found["backward_ms"]  # type: ignore[operator]
    assert found["images_per_second"] == pytest.approx(1000 / milliseconds, rel=1e-6)
    assert 0 < found["mean_residual"] < 1e-2  # type: ignore[operator]
    assert found["mean_evaluations"] >= 2  # type: ignore[operator]


def test_calibration(run: RunFolder) -> None:
    found = Calibration(limit=60, train_images=60).measure(run)
    assert set(found) == {"known_kl", "unknown_kl", "unknown_auroc", "ece", "brier"}
    assert 1.5 < found["known_kl"] < 4  # type: ignore[operator]  # ln 10 = 2.3 for one that knows nothing
    assert 0 <= found["ece"] <= 100  # type: ignore[operator]


def test_unseen_accuracy(tmp_path: Path, run: RunFolder) -> None:
    assert UnseenAccuracy().measure(run) == {}
    root = write_cifar10(tmp_path / "data")
    known = saved_run(
        tmp_path,
        "known",
        model="resnet_small",
        data="cifar10",
        data_root=str(root),
        data_override={"classes": "known"},
    )
    found = UnseenAccuracy().measure(known)["unknown_accuracy"]
    assert found is not None
    assert 0 <= found <= 100
    assert found == pytest.approx(10 * round(found / 10))  # of ten images


def test_a_record_says_what_was_run(tmp_path: Path) -> None:
    job = plan_job(EXPERIMENTS["geq-table-1a"], "smoke", "geq", 3, tmp_path)
    options = {f.name: getattr(job.options, f.name) for f in fields(job.options)}
    own = {k: v for k, v in options.items() if k not in ("runs", "name", "threads")}
    folder = saved_run(tmp_path, str(job.options.name), **own)
    epoch = {"kind": "epoch", "epoch": 1, "step": 3, "train_loss": 2.0, "seconds": 1.5, "cpu_seconds": 1.25}
    final = {
        "kind": "final",
        "epochs": 1,
        "step": 3,
        "parameters": 20_220,
        "seconds": 1.5,
        "cpu_seconds": 1.25,
        "test_images": 360,
        "test_loss": 2.1,
        "test_accuracy": 25.0,
        "test_steps": 4.5,
        "test_residual": 9e-4,
        "test_unconverged": 0.25,
    }
    folder.write_log([epoch, final])
    record = make_record(job)
    assert (record.experiment, record.scale, record.arm, record.seed) == ("geq-table-1a", "smoke", "geq", 3)
    assert record.config_hash == job.config_hash
    assert record.metrics == {
        "test_images": 360,
        "test_loss": 2.1,
        "test_accuracy": 25.0,
        "parameters": 20_220,
    }
    assert record.solver == {"evaluations": 4.5, "residual": 9e-4, "converged": 0.75}
    assert record.epochs == [{k: v for k, v in epoch.items() if k != "kind"}]
    assert (record.wall_seconds, record.cpu_seconds) == (1.5, 1.25)
    assert record.versions["torch"] == torch.__version__
    assert solver_figures({"test_accuracy": 1.0}) == {}
    assert short_commit("a" * 40) == "a" * 7


def test_cpu_name(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n")
    assert cpu_name(tmp_path / "cpuinfo") == "Some CPU @ 3 GHz"
    assert cpu_name(tmp_path / "nothing")
