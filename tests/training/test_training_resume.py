"""Resuming: the same bits in every number format, and never with other data."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from dataset_kinds import KINDS, MASKS
from geq.cli import main
from geq.errors import CheckpointError, DataError
from geq.training.fit import TrainingOutcome, resume, train
from geq.training.interrupt import TrainingInterrupted
from geq.training.run_folder import RunFolder
from geq.training.train_options import Precision, TrainOptions

Small = Callable[..., TrainOptions]
FCN = {
    "model": "fcn_camvid_small",
    "override": {"stem_channels": [8, 12], "channels": [12, 16], "strides": [1, 2]},
    "train_size": None,
    "batch_size": 3,
}


Interrupted = Callable[[TrainOptions, int], RunFolder]


@pytest.fixture
def interrupted(interrupt_at: Callable[[set[int]], None], monkeypatch: pytest.MonkeyPatch) -> Interrupted:
    """Train until a step, in which Ctrl-C is pressed."""

    def run(options: TrainOptions, step: int) -> RunFolder:
        interrupt_at({step})
        with pytest.raises(TrainingInterrupted):
            train(options)
        monkeypatch.undo()
        assert options.name is not None
        return RunFolder.find(options.name, options.runs)

    return run


def content(outcome: TrainingOutcome | None) -> tuple[bytes, list[dict[str, Any]]]:
    """The weights and the log of a run, without times."""
    assert outcome is not None
    log = [{k: v for k, v in record.items() if "seconds" not in k} for record in outcome.folder.log()]
    return (outcome.folder.model / "model.safetensors").read_bytes(), log


@pytest.mark.filterwarnings("ignore:You passed `Fabric.*16-mixed")  # Fabric takes bf16-mixed on a CPU
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
    precision: Precision, changes: dict[str, Any], small: Small, interrupted: Interrupted
) -> None:
    whole = content(train(small(name="whole", precision=precision, **changes)))
    folder = interrupted(small(name="parts", precision=precision, **changes), 1)
    assert content(resume(folder)) == whole


def started(name: str, small: Small, tmp_path: Path, interrupted: Interrupted) -> RunFolder:
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
    return interrupted(options, 1)


@pytest.mark.parametrize("name", ["cifar10", "mnist", "imagefolder", "hub", "camvid"])
def test_other_data_are_refused_for_every_kind(
    name: str, small: Small, tmp_path: Path, interrupted: Interrupted
) -> None:
    folder = started(name, small, tmp_path, interrupted)
    shutil.copytree(tmp_path / "data", tmp_path / "kept")
    KINDS[name].change(tmp_path / "data")
    with pytest.raises(DataError, match=r"must be resumed with the data .* an image or a label is another"):
        resume(folder)
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "kept").rename(tmp_path / "data")
    assert resume(folder) is not None


def test_a_renamed_class_is_refused(
    small: Small, tmp_path: Path, interrupted: Interrupted, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would permute the labels in the middle of a training."""
    folder = started("imagefolder", small, tmp_path, interrupted)
    for part in ("train", "val"):
        (tmp_path / "data" / "pictures" / part / "ant").rename(
            tmp_path / "data" / "pictures" / part / "zebra"
        )
    assert main(["train", "--resume", str(folder.path)]) == 2
    assert "in the training images class 0 was ant and is bee: restore the data" in capsys.readouterr().err
    assert folder.state() == "stopped"


def test_other_test_or_validation_images_are_refused(
    small: Small, tmp_path: Path, interrupted: Interrupted
) -> None:
    folder = started("imagefolder", small, tmp_path, interrupted)
    (tmp_path / "data" / "pictures" / "val" / "ant" / "000.png").unlink()
    with pytest.raises(DataError, match="in the test images the number of images was 20 and is 19"):
        resume(folder)


def test_without_its_fingerprint_a_run_is_not_resumed(
    small: Small, tmp_path: Path, interrupted: Interrupted
) -> None:
    folder = interrupted(small(name="run"), 1)
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
