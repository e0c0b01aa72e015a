"""The training loop at small size: learning, files and resuming."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from geq.errors import CheckpointError, ConvergenceError, OptionError
from geq.model.network import Network
from geq.training.checkpoint import Checkpoint
from geq.training.fit import TrainingOutcome, resume, train
from geq.training.interrupt import TrainingInterrupted
from geq.training.run_folder import RunFolder, known_runs
from geq.training.train_options import TrainOptions

Small = Callable[..., TrainOptions]


def finished(outcome: TrainingOutcome | None) -> TrainingOutcome:
    assert outcome is not None
    return outcome


def weights(folder: RunFolder) -> bytes:
    return (folder.model / "model.safetensors").read_bytes()


def timeless(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if "seconds" not in k} for record in records]


def test_it_learns_and_writes_a_run(small: Small) -> None:
    outcome = finished(
        train(small(model="resnet_tiny", train_size=None, batch_size=64, epochs=3, learning_rate=0.1))
    )
    folder = outcome.folder
    assert outcome.final["test_accuracy"] > 80
    assert folder.path.name == "resnet_tiny-digits-1"
    assert [record["epoch"] for record in folder.epochs()] == [1, 2, 3]
    assert folder.result() == outcome.final
    assert folder.state() == "finished"
    assert folder.options().epochs == 3
    assert folder.data().classes == tuple("0123456789")
    assert folder.environment()["seed"] == 0
    assert list(folder.tensorboard.iterdir())
    losses = [record["train_loss"] for record in folder.epochs()]
    assert losses == sorted(losses, reverse=True)
    model = Network.from_pretrained(folder.model)
    assert model.parameter_count() == outcome.final["parameters"]


def test_what_hardly_moves_has_not_run_away(small: Small) -> None:
    """γ and q at the start are those of normalised data, though no batch has passed the norms yet."""
    still = small(model="geq_tiny", epochs=1, train_size=None, learning_rate=1e-6, augment="none")
    outcome = finished(train(still))
    (first,) = (
        state["first"]
        for state in Checkpoint.load(outcome.folder.checkpoint).callbacks.values()
        if "first" in state
    )
    for name, value in first.items():
        if name.startswith(("gamma/", "distance/", "rank/")):
            assert outcome.history[0][name] == pytest.approx(value, rel=0.3), name


def test_solver_statistics_of_an_equilibrium_model(small: Small) -> None:
    outcome = finished(train(small(model="geq_tiny", epochs=1, picture=True)))
    record = outcome.history[0]
    assert 1 < record["solver_steps"] < 50
    assert 0 < record["solver_residual"] <= 1e-3
    assert record["solver_unconverged"] == record["test_unconverged"] == 0
    assert 0 <= record["beta_min"] <= record["beta_mean"] <= record["beta_max"] <= 1
    assert record["gamma/branches.0"] > 0
    assert math.isfinite(record["energy"])
    assert 0 < record["gradient_norm"] <= record["gradient_norm_max"]
    assert outcome.folder.picture.read_bytes().startswith(b"\x89PNG")


def test_the_same_seed_gives_the_same_weights(small: Small) -> None:
    first, second, other = (
        finished(train(small(model="geq_tiny", train_size=64, epochs=1, seed=seed))) for seed in (3, 3, 4)
    )
    assert weights(first.folder) == weights(second.folder)
    assert weights(first.folder) != weights(other.folder)
    assert timeless(first.history) == timeless(second.history)


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({"model": "geq_tiny"}, {1, 4}),
        ({"model": "opteq_tiny", "gradient": "averaging", "regulariser": "hsic", "steps": 3}, {4}),
        ({"model": "resnet_tiny", "ema": 0.9}, {3, 5}),
        ({"optimizer": "adamw", "learning_rate": 0.002, "label_smoothing": 0.1}, {2, 3, 4}),
        ({"epochs": 3, "validation": 64, "early_stop": 1, "ema": 0.5, "evaluate_every": 1}, {4}),
    ],
    ids=["geq", "averaging", "average", "adamw", "early stop"],
)
def test_resuming_after_ctrl_c_changes_nothing(
    changes: dict[str, Any], steps: set[int], small: Small, interrupt_at: Callable[[set[int]], None]
) -> None:
    undisturbed = finished(train(small(name="whole", **changes)))
    interrupts = len(steps)
    interrupt_at(steps)
    options = small(name="parts", **changes)
    with pytest.raises(TrainingInterrupted, match=r"geq train --resume .*parts"):
        train(options)
    folder = RunFolder.find("parts", options.runs)
    assert folder.state() == "stopped"
    for _ in range(interrupts - 1):
        torch.rand(7)  # what others drew in between must not matter
        with pytest.raises(TrainingInterrupted):
            resume(folder)
    outcome = finished(resume(folder))
    assert weights(outcome.folder) == weights(undisturbed.folder)
    assert timeless(outcome.folder.log()) == timeless(undisturbed.folder.log())


def test_resuming_without_a_checkpoint_begins_again(small: Small) -> None:
    whole = finished(train(small(name="whole")))
    options = small(name="killed")
    folder = RunFolder.create(options)
    folder.write_fingerprints(whole.folder.fingerprints())
    folder.describe(options, whole.folder.environment(), whole.folder.data())
    assert weights(finished(resume(folder)).folder) == weights(whole.folder)


def test_resuming_a_finished_run_only_reports(small: Small) -> None:
    outcome = finished(train(small(epochs=1)))
    before = {path: path.stat().st_mtime_ns for path in outcome.folder.path.rglob("*")}
    assert finished(resume(outcome.folder)).final == outcome.final
    assert {path: path.stat().st_mtime_ns for path in outcome.folder.path.rglob("*")} == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_devices_that_are_not_there(small: Small) -> None:
    options = small(accelerator="gpu")
    with pytest.raises(OptionError, match="these devices cannot be used"):
        train(options)
    assert not Path(options.runs).exists()


def test_a_run_with_a_strategy_that_is_gone_says_which_there_are(small: Small) -> None:
    folder = finished(train(small(epochs=1))).folder
    config = folder.path / "config.yaml"
    config.write_text(config.read_text().replace("strategy: auto", "strategy: fsdp"))
    with pytest.raises(OptionError, match=r"strategy.*'auto'.*'ddp'.*'fsdp'"):
        resume(folder)


def test_checkpoints_within_an_epoch(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    positions = []
    save = Checkpoint.save

    def remember(checkpoint: Checkpoint, path: Path) -> None:
        positions.append(tuple(checkpoint.position.values()))
        save(checkpoint, path)

    monkeypatch.setattr(Checkpoint, "save", remember)
    train(small(checkpoint_steps=1))
    # Never at the last batch of an epoch, which is complete only with its evaluation.
    assert positions == [(0, 1, 1), (0, 2, 2), (1, 0, 3), (1, 1, 4), (1, 2, 5), (2, 0, 6)]


def test_the_average_is_what_is_saved_and_measured(small: Small) -> None:
    plain = finished(train(small(name="plain")))
    averaged = finished(train(small(name="averaged", ema=0.5)))
    assert weights(plain.folder) != weights(averaged.folder)
    # Evaluation does not disturb the training weights, so the training losses agree.
    assert [r["train_loss"] for r in plain.history] == [r["train_loss"] for r in averaged.history]
    assert averaged.history[-1]["test_loss"] == pytest.approx(averaged.final["test_loss"], rel=1e-5)


def test_early_stopping_keeps_the_best(small: Small) -> None:
    # A learning rate so high that it gets worse soon.
    options = small(
        model="resnet_tiny",
        epochs=12,
        validation=60,
        early_stop=2,
        learning_rate=1.0,
        schedule="constant",
        clip=0.0,
    )
    outcome = finished(train(options))
    accuracies = [record["validation_accuracy"] for record in outcome.history]
    best = accuracies.index(max(accuracies)) + 1
    assert outcome.final["epochs"] == min(best + 2, 12)
    assert "test_accuracy" not in outcome.history[0], "the test set must decide nothing"


def test_early_stopping_with_a_single_evaluation_keeps_its_network(small: Small) -> None:
    outcome = finished(train(small(epochs=2, validation=60, early_stop=2, evaluate_every=2)))
    assert "validation_accuracy" in outcome.history[-1]
    assert outcome.final["test_accuracy"] >= 0


def test_a_new_run_does_not_touch_an_old_one(small: Small) -> None:
    options = small(name="mine", epochs=1)
    train(options)
    with pytest.raises(CheckpointError, match="--resume"):
        train(options)
    train(small(epochs=1))
    train(small(epochs=1))
    assert known_runs(options.runs) == ["mine", "dnn_tiny-digits-1", "dnn_tiny-digits-2"]


def test_two_processes_cannot_write_one_run(small: Small) -> None:
    options = small(name="mine")
    folder = RunFolder.create(options)
    other = finished(train(small(epochs=1))).folder
    folder.write_fingerprints(other.fingerprints())
    folder.describe(options, {}, other.data())
    with folder.locked():
        assert folder.state() == "running"
        with pytest.raises(CheckpointError, match="another process"):
            resume(folder)


def test_a_folder_that_cannot_be_written(small: Small, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(CheckpointError, match="choose another folder with --runs"):
        train(small(runs=str(tmp_path / "file" / "runs")))


def test_a_full_disk_in_the_middle_of_a_run(
    small: Small, around_step: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system refuses large files from step 4 on; the run resumes from the checkpoint before."""
    import resource

    whole = finished(train(small(name="whole")))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_disk(step: int) -> None:
        if step == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, before[1]))

    around_step(before=fill_disk)
    options = small(name="full", checkpoint_steps=1)
    try:
        with pytest.raises(CheckpointError, match=r"full cannot be written .*The last checkpoint is whole"):
            train(options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    monkeypatch.undo()
    folder = RunFolder.find("full", options.runs)
    assert Checkpoint.load(folder.checkpoint).position["step"] == 4
    assert weights(finished(resume(folder)).folder) == weights(whole.folder)


def test_a_loss_that_explodes_ends_with_advice(small: Small) -> None:
    with pytest.raises(ConvergenceError, match="lower --learning_rate"):
        train(small(learning_rate=1e30, clip=0.0, warmup_epochs=0.0, epochs=5))


def test_non_convergence_is_warned_of(small: Small, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="geq.training"):
        outcome = finished(train(small(model="geq_tiny", epochs=2, override={"max_steps": 2})))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1, "one warning, not one for each epoch"
    assert "--model.bound 0.8" in messages[0]
    assert outcome.history[0]["solver_unconverged"] > 0.5
    assert outcome.final["test_unconverged"] > 0.5


def test_log_lines_are_json(small: Small) -> None:
    folder = finished(train(small(model="geq_tiny", train_size=32, epochs=1))).folder
    lines = (folder.path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["epoch", "final"]


def test_precision(small: Small) -> None:
    changes = {"model": "geq_tiny", "train_size": 64, "epochs": 1, "ema": 0.5}
    single, half, double = (
        finished(train(small(**changes, precision=precision, picture=precision == "64")))
        for precision in ("32", "bf16-mixed", "64")
    )
    loss = single.history[0]["train_loss"]
    assert half.history[0]["train_loss"] == pytest.approx(loss, rel=0.1)
    assert half.history[0]["train_loss"] != loss
    assert double.history[0]["train_loss"] == pytest.approx(loss, rel=1e-2)
    assert next(Network.from_pretrained(double.folder.model).parameters()).dtype == torch.float64
