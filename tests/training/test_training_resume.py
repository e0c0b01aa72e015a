"""Resuming: the same bits in every number format, and never with other data."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from dataset_kinds import KINDS, MASKS
from geq.cli import main
from geq.error import CheckpointError, DataError
from geq.training import fit
from geq.training.callback.interrupt import Interrupt, TrainingInterrupted
from geq.training.fit import Outcome, resume, train
from geq.training.option import Precision, TrainOptions
from geq.training.run import RunFolder

Small = Callable[..., TrainOptions]
FCN = {
    "model": "fcn_camvid_small",
    "override": ("stem_channels=[8,12]", "channels=[12,16]", "strides=[1,2]"),
    "train_size": None,
    "batch_size": 3,
}


def interrupt_at(monkeypatch: pytest.MonkeyPatch, steps: set[int]) -> None:
    class Impatient(Interrupt):
        def on_train_batch_end(self, trainer: Any, task: Any, *rest: Any) -> None:
            if task.position.step in steps:
                steps.discard(task.position.step)
                signal.raise_signal(signal.SIGINT)
            super().on_train_batch_end(trainer, task, *rest)

    monkeypatch.setattr(fit, "Interrupt", Impatient)


def interrupted(options: TrainOptions, monkeypatch: pytest.MonkeyPatch, step: int) -> RunFolder:
    interrupt_at(monkeypatch, {step})
    with pytest.raises(TrainingInterrupted):
        train(options)
    monkeypatch.undo()
    assert options.name is not None
    return RunFolder.find(options.name, options.runs)


def content(outcome: Outcome | None) -> tuple[bytes, list[dict[str, Any]]]:
    """The weights and the log of a run, without times."""
    assert outcome is not None
    log = [{k: v for k, v in record.items() if "seconds" not in k} for record in outcome.folder.log()]
    return (outcome.folder.model / "model.safetensors").read_bytes(), log


@pytest.mark.filterwarnings("ignore:You passed `Trainer.*16-mixed")  # Lightning takes bf16-mixed on a CPU
@pytest.mark.parametrize(
    "changes",
    [
        {"model": "resnet_tiny", "ema": 0.9},
        {"optimizer": "adamw", "learning_rate": 0.002, "validation": 32, "early_stop": 1},
        pytest.param({"model": "geq_tiny", "train_size": 32, "batch_size": 16}, marks=pytest.mark.slow),
    ],
    ids=["average", "adamw", "equilibrium"],
)
@pytest.mark.parametrize("precision", get_args(Precision))
def test_every_precision_resumes_bit_by_bit(
    precision: Precision, changes: dict[str, Any], small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = content(train(small(name="whole", precision=precision, **changes)))
    folder = interrupted(small(name="parts", precision=precision, **changes), monkeypatch, 1)
    assert content(resume(folder)) == whole


def started(name: str, small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run on generated data that was interrupted."""
    kind = KINDS[name]
    kind.write(tmp_path / "data")
    options = small(
        **(FCN if name in MASKS else {"train_size": None, "augment": "none"}),
        name="run",
        data=kind.data,
        data_override=kind.override,
        data_root=str(tmp_path / "data"),
    )
    return interrupted(options, monkeypatch, 1)


@pytest.mark.parametrize("name", ["cifar10", "mnist", "imagefolder", "hub", "camvid"])
def test_other_data_are_refused_for_every_kind(
    name: str, small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = started(name, small, tmp_path, monkeypatch)
    shutil.copytree(tmp_path / "data", tmp_path / "kept")
    KINDS[name].change(tmp_path / "data")
    with pytest.raises(DataError, match=r"must be resumed with the data .* an image or a label is another"):
        resume(folder)
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "kept").rename(tmp_path / "data")
    assert resume(folder) is not None


def test_a_renamed_class_is_refused(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would permute the labels in the middle of a training."""
    folder = started("imagefolder", small, tmp_path, monkeypatch)
    for part in ("train", "val"):
        (tmp_path / "data" / "pictures" / part / "ant").rename(
            tmp_path / "data" / "pictures" / part / "zebra"
        )
    assert main(["train", "--resume", str(folder.path)]) == 2
    assert "in the training images class 0 was ant and is bee: restore the data" in capsys.readouterr().err
    assert folder.state() == "stopped"


def test_other_test_or_validation_images_are_refused(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = started("imagefolder", small, tmp_path, monkeypatch)
    (tmp_path / "data" / "pictures" / "val" / "ant" / "000.png").unlink()
    with pytest.raises(DataError, match="in the test images the number of images was 20 and is 19"):
        resume(folder)


def test_without_its_fingerprint_a_run_is_not_resumed(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = interrupted(small(name="run"), monkeypatch, 1)
    kept = folder.path / "fingerprint.json"
    shutil.copy(kept, tmp_path / "kept.json")
    kept.write_text("{}")
    with pytest.raises(DataError, match="the dataset was None and is digits"):
        resume(folder)
    kept.unlink()
    with pytest.raises(CheckpointError, match=r"fingerprint\.json cannot be read"):
        resume(folder)
    shutil.copy(tmp_path / "kept.json", kept)
    assert resume(folder) is not None
