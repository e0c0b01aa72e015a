"""Segmentation in the training loop, for real on tiny scenes: learning, choosing the best, resuming."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from geq.errors import DataError, OptionError
from geq.model.model_registry import create_model
from geq.model.network import Network
from geq.model.segmenter import Segmenter
from geq.training.fit import TrainingOutcome, resume, train
from geq.training.interrupt import TrainingInterrupted
from geq.training.run_folder import RunFolder
from geq.training.segmentation_task import SegmentationTask, evaluate_segmenter, task_class
from geq.training.setup import (
    augmentation,
    build_model,
    evaluation_batch,
    evaluation_loader,
    open_datasets,
    open_split,
)
from geq.training.sliding_window import Inference
from geq.training.task import ClassificationTask
from geq.training.train_options import TrainOptions
from scenes import CAR, ROAD, SKY, write_camvid

Scenes = Callable[..., TrainOptions]
FCN = {
    "model": "fcn_camvid_small",
    "override": {"stem_channels": [8, 12], "channels": [12, 16], "strides": [1, 2]},
}


@pytest.fixture
def scenes(tmp_path: Path) -> Scenes:
    """Options of a run of three steps an epoch on generated scenes."""
    root = write_camvid(tmp_path / "data")
    defaults: dict[str, Any] = {
        **FCN,
        "data": "camvid",
        "data_root": str(root),
        "batch_size": 4,
        "epochs": 2,
        "learning_rate": 0.05,
        "schedule": "poly",
        "warmup_epochs": 0.0,
        "picture": False,
        "threads": 1,
        "runs": str(tmp_path / "runs"),
    }
    return lambda **changes: TrainOptions(**{**defaults, **changes})


def finished(outcome: TrainingOutcome | None) -> TrainingOutcome:
    assert outcome is not None
    return outcome


def weights(folder: RunFolder) -> bytes:
    return (folder.model / "model.safetensors").read_bytes()


def timeless(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if "seconds" not in k} for record in records]


def test_it_learns_scenes(scenes: Scenes) -> None:
    options = scenes(epochs=12, augment="none", learning_rate=0.1, validation="official", picture=True)
    outcome = finished(train(options))
    final, first = outcome.final, outcome.history[0]
    assert final["test_aacc"] > 90
    assert final["test_miou"] > 70
    assert first["train_loss"] > outcome.history[-1]["train_loss"]
    assert {"validation_miou", "validation_macc", "validation_aacc", "validation_loss"} <= set(first)
    assert "test_miou" not in first, "the test images must decide nothing"
    there = {name for name, share in final["test_class_iou"].items() if share is not None and share > 0}
    assert there == {"sky", "road", "car"}
    assert outcome.folder.picture.read_bytes().startswith(b"\x89PNG")
    data = open_datasets(options)
    model = Network.from_pretrained(outcome.folder.model)
    assert isinstance(model, Segmenter)
    again = evaluate_segmenter(model, evaluation_loader(data.test, statistics=data.statistics, batch_size=1))
    assert again.miou == final["test_miou"], "the batch size changes nothing"
    assert again.loss == pytest.approx(final["test_loss"], rel=1e-5)


def test_sliding_evaluation(scenes: Scenes) -> None:
    options = scenes(epochs=1)
    data = open_datasets(options)
    model = build_model(options, data.describe())
    assert isinstance(model, Segmenter)
    batches = evaluation_loader(data.test, statistics=data.statistics)
    whole, large, small = (
        evaluate_segmenter(model, batches, Inference(window)) for window in (None, (21, 30), (12, 16))
    )
    assert whole == large
    assert small.loss != whole.loss
    assert small.loss == pytest.approx(whole.loss, rel=0.2)
    sliding = finished(train(scenes(epochs=1, inference="sliding", window=(12, 16)))).final
    assert sliding["test_loss"] != finished(train(options)).final["test_loss"]


def test_the_best_weights_are_those_of_the_best_miou(scenes: Scenes) -> None:
    options = scenes(
        epochs=8,
        early_stop=2,
        validation="official",
        learning_rate=2.0,
        schedule="constant",
        clip=0.0,
        ema=0.0,
    )
    outcome = finished(train(options))
    reached = [record["validation_miou"] for record in outcome.history]
    best = reached.index(max(reached)) + 1
    assert outcome.final["epochs"] == min(best + 2, 8)
    model = Network.from_pretrained(outcome.folder.model)
    assert isinstance(model, Segmenter)
    data = open_datasets(options)
    measured = evaluate_segmenter(model, evaluation_loader(data.monitored, statistics=data.statistics))
    assert measured.miou == pytest.approx(max(reached))


OPTEQ = {
    "model": "opteq_camvid_small",
    "override": {"stem_channels": [6, 8], "channels": [6, 8], "head_channels": 8},
}
CHANGES: list[dict[str, Any]] = [
    {"validation": "official", "early_stop": 2, "ema": 0.5},
    {"workers": 1, "label_smoothing": 0.1},
    OPTEQ,
]


def test_the_solver_of_deep_opteq_is_measured(scenes: Scenes) -> None:
    outcome = finished(train(scenes(**OPTEQ, epochs=1, inference="sliding", window=(12, 16), picture=True)))
    record = outcome.history[0]
    assert 1 < record["solver_steps"] < 50
    assert 0 < record["solver_residual"] <= 1e-3
    assert (
        record["solver_unconverged"] == record["test_unconverged"] == outcome.final["test_unconverged"] == 0
    )
    assert outcome.final["test_steps"] == pytest.approx(record["test_steps"])
    assert outcome.folder.picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("changes", CHANGES, ids=["best", "workers", "opteq"])
def test_resuming_after_ctrl_c_changes_nothing(
    changes: dict[str, Any], scenes: Scenes, interrupt_at: Callable[[set[int]], None]
) -> None:
    undisturbed = finished(train(scenes(name="whole", **changes)))
    interrupt_at({2, 4})
    options = scenes(name="parts", **changes)
    with pytest.raises(TrainingInterrupted):
        train(options)
    folder = RunFolder.find("parts", options.runs)
    torch.rand(7)  # what others drew in between must not matter
    with pytest.raises(TrainingInterrupted):
        resume(folder)
    outcome = finished(resume(folder))
    assert weights(outcome.folder) == weights(undisturbed.folder)
    assert timeless(outcome.folder.log()) == timeless(undisturbed.folder.log())


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_killed_run_ends_with_the_same_weights(scenes: Scenes, around_step: Callable[..., None]) -> None:
    """SIGKILL in the middle of the second epoch, in a process of its own."""
    whole = finished(train(scenes(name="whole", checkpoint_steps=1)))
    options = scenes(name="killed", checkpoint_steps=1)

    def kill(step: int) -> None:
        if step == 5:
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        around_step(before=kill)
        try:
            train(options)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    folder = RunFolder.find("killed", options.runs)
    assert folder.result() is None
    outcome = finished(resume(folder))
    assert weights(outcome.folder) == weights(whole.folder)
    assert timeless(outcome.folder.log()) == timeless(whole.folder.log())


def test_a_mask_with_a_strange_value_is_named(scenes: Scenes, tmp_path: Path) -> None:
    path = tmp_path / "data" / "camvid" / "trainannot" / "003.png"
    mask = np.asarray(Image.open(path)).copy()
    mask[4, 5] = 77
    Image.fromarray(mask).save(path)
    with pytest.raises(DataError, match=r"trainannot/003\.png has labels \[77\] unknown to camvid"):
        train(scenes())


def test_networks_and_data_must_fit(scenes: Scenes) -> None:
    with pytest.raises(OptionError, match="camvid has a label for each pixel, resnet_tiny classifies"):
        train(scenes(model="resnet_tiny", override={}))
    with pytest.raises(
        OptionError, match="fcn_camvid_small is a segmenter, digits has one label for an image"
    ):
        train(scenes(data="digits"))
    assert not Path(scenes().runs).exists(), "nothing is written before it is sure to fit"
    scene_data, digits = open_split(scenes(), "test"), open_split(TrainOptions(), "test")
    assert task_class(create_model("fcn_camvid_small"), scene_data) is SegmentationTask
    assert task_class(create_model("dnn_tiny"), digits) is ClassificationTask


def test_validation_images(scenes: Scenes) -> None:
    watched = open_datasets(scenes())
    assert watched.monitored is watched.test
    official = open_datasets(scenes(validation="official", train_size=5))
    assert official.monitored_name == "validation"
    assert (len(official.train), len(official.monitored), len(official.test)) == (5, 4, 5)
    with pytest.raises(OptionError, match="frames of videos"):
        open_datasets(scenes(validation=0.2))
    with pytest.raises(OptionError, match="digits has no official validation images"):
        open_datasets(TrainOptions(validation="official"))
    assert augmentation("camvid", "auto") == "crop_flip"
    assert evaluation_batch(official.test) == 2**19 // (21 * 30)


def test_void_pixels_count_for_nothing(scenes: Scenes) -> None:
    """The void column of the scenes: 1 of 30 columns is missing from the counts."""
    data = open_datasets(scenes())
    model = create_model(
        "fcn_camvid_small", stem_channels=(4,), stem_strides=(2,), channels=(4,), strides=(1,)
    )
    assert isinstance(model, Segmenter)
    task = SegmentationTask(model, scenes())
    images, labels = next(iter(evaluation_loader(data.test, statistics=data.statistics)))
    measures = task.new_measures()
    measures.update(torch.tensor(0.0), model.eval()(images), labels)
    assert int(measures.matrix().sum()) == 5 * 21 * 29
    assert measures.matrix().sum(1).nonzero()[:, 0].tolist() == sorted([SKY, ROAD, CAR])
    perfect = torch.nn.functional.one_hot(labels.clamp(max=10), 11).movedim(-1, 1).float()
    assert task.share_correct(perfect, labels) == 1


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [pytest.param(FCN, id="fcn", marks=pytest.mark.nightly), pytest.param(OPTEQ, id="opteq")]
)
def test_real_camvid(changes: dict[str, Any], real_root: Path, tmp_path: Path) -> None:
    """A few steps on real images teach where the sky and the road are."""
    options = TrainOptions(
        **changes,
        data="camvid",
        data_root=str(real_root),
        validation="official",
        train_size=64,
        batch_size=4,
        epochs=2,
        learning_rate=0.1,
        warmup_epochs=0.0,
        picture=False,
        threads=1,
        runs=str(tmp_path),
    )
    outcome = finished(train(options))
    assert outcome.folder.data().shape == (3, 180, 240)
    assert outcome.final["test_images"] == 233
    assert outcome.final["test_aacc"] > 35
    assert outcome.final["test_class_iou"]["road"] > 30
