"""The same network on the same images has the same figures by every command, for every kind of dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from dataset_kinds import KINDS, MASKS, Kind
from geq.cli import main
from geq.data.class_folders import FolderDataset
from geq.data.dataset_registry import AnyDataset
from geq.data.segmentation import IGNORE, SegmentationDataset
from geq.training.run_folder import RunFolder
from geq.training.setup import open_split

SMALL = ("--model", "resnet_tiny", "--epochs", "3", "--train_size", "90")
EQUILIBRIUM = ("--model", "geq_tiny", "--epochs", "2", "--train_size", "90")
SEGMENTER = (
    *("--model", "fcn_camvid_small", "--model.stem_channels", "[8,12]"),
    *("--model.channels", "[12,16]", "--model.strides", "[1,2]", "--epochs", "6"),
)


@pytest.fixture
def figures(capsys: pytest.CaptureFixture[str]) -> Any:
    """Calls a command and returns its JSON."""

    def call(*arguments: object) -> Any:
        capsys.readouterr()
        assert main([*map(str, arguments), "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return call


def trained(
    kind: Kind, network: tuple[str, ...], tmp_path: Path, figures: Any
) -> tuple[RunFolder, dict[str, Any]]:
    kind.write(tmp_path / "data")
    options = [word for name, value in kind.override.items() for word in (f"--data.{name}", value)]
    found = figures(
        *(
            "train",
            "--data",
            kind.data,
            "--data_root",
            tmp_path / "data",
            *options,
            *network,
            "--batch_size",
            8,
        ),
        *("--augment", "none", "--learning_rate", 0.05, "--picture", "false", "--threads", 1),
        *("--runs", tmp_path, "--name", "run"),
    )
    return RunFolder(tmp_path / "run"), found


def files_of(dataset: AnyDataset, folder: Path) -> list[Path]:
    """The images of a dataset as files: its own, or lossless copies."""
    if isinstance(dataset, FolderDataset):
        return list(dataset.paths)
    if isinstance(dataset, SegmentationDataset):
        return [image for image, _ in dataset.paths]
    folder.mkdir()
    images, _ = dataset.batch(torch.arange(len(dataset)))
    paths = [folder / f"{number:03d}.png" for number in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        pixels = image.permute(1, 2, 0).numpy()
        Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(path)
    return paths


def by_onnx(path: Path, dataset: AnyDataset) -> Tensor:
    """Logits of the exported file, which is given images from 0 to 1."""
    runtime = pytest.importorskip("onnxruntime")
    images = dataset.batch(torch.arange(len(dataset)))[0].float() / 255
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(["logits"], {"images": images.numpy()})[0])


@pytest.mark.parametrize(
    "name, network",
    [
        *(pytest.param(name, SMALL, marks=pytest.mark.slow, id=name) for name in KINDS if name not in MASKS),
        # The export of equilibria takes minutes where every call is checked for its types.
        pytest.param("digits", EQUILIBRIUM, marks=pytest.mark.nightly, id="equilibria, in memory"),
        pytest.param("hub", EQUILIBRIUM, marks=pytest.mark.nightly, id="equilibria, of files"),
    ],
)
def test_classification(
    name: str, network: tuple[str, ...], tmp_path: Path, figures: Any, caplog: pytest.LogCaptureFixture
) -> None:
    kind = KINDS[name]
    run, final = trained(kind, network, tmp_path, figures)
    accuracy, loss = final["test_accuracy"], final["test_loss"]
    test = open_split(run.options(), "test")
    place = ("--data_root", tmp_path / "data")
    assert accuracy > 120 / len(torch.unique(test.labels)), "chance shows no difference"  # type: ignore[union-attr]
    assert ("has no images of cat" in caplog.text) == (name == "imagefolder")

    last = run.epochs()[-1]
    assert (last["test_accuracy"], last["test_loss"]) == (accuracy, pytest.approx(loss, rel=1e-5))

    evaluated = figures("evaluate", run.path, *place)
    assert (evaluated["accuracy"], evaluated["loss"]) == (accuracy, loss)
    assert figures("evaluate", run.path, *place, "--batch_size", 7)["accuracy"] == accuracy

    analysed = figures("analyze", run.path, *place, "--only", "calibration")["calibration"]["test"]
    assert analysed["accuracy"] == pytest.approx(accuracy)
    assert analysed["nll"] == pytest.approx(loss, rel=1e-3, abs=1e-6)

    labels = [test.classes[int(label)] for label in test.labels]  # type: ignore[union-attr]
    said = figures("predict", run.path, *files_of(test, tmp_path / "files"))["predictions"]
    right = [row["label"] == label for row, label in zip(said, labels, strict=True)]
    assert 100 * np.mean(right) == pytest.approx(accuracy)
    assert 100 * np.mean([row["confidence"] for row in said]) == pytest.approx(
        analysed["confidence"], rel=1e-3
    )

    figures("export", run.path, *place, "--onnx", tmp_path / "run.onnx", "--images", 4)
    logits = by_onnx(tmp_path / "run.onnx", test)
    share = (logits.argmax(1) == test.labels).double().mean()  # type: ignore[union-attr]
    assert 100 * float(share) == pytest.approx(accuracy)
    confidence = 100 * float(logits.double().softmax(1).amax(1).mean())
    assert confidence == pytest.approx(analysed["confidence"], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", MASKS)
def test_segmentation(name: str, tmp_path: Path, figures: Any) -> None:
    kind = KINDS[name]
    run, final = trained(kind, SEGMENTER, tmp_path, figures)
    place = ("--data_root", tmp_path / "data")
    evaluated = figures("evaluate", run.path, *place)
    for figure in ("miou", "macc", "aacc", "loss"):
        assert evaluated[figure] == final[f"test_{figure}"], figure

    test = open_split(run.options(), "test")
    truth = test.batch(torch.arange(len(test)))[1].numpy()
    said = figures("predict", run.path, *files_of(test, tmp_path), "--output", tmp_path / "masks")[
        "predictions"
    ]
    masks = np.stack([np.asarray(Image.open(row["mask"])) for row in said])
    judged = truth != IGNORE
    assert 100 * (masks == truth)[judged].mean() == pytest.approx(final["test_aacc"])


@pytest.mark.slow
def test_classes_that_have_moved_are_refused_by_every_command(
    tmp_path: Path, figures: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Renamed in train/ and val/, a folder gives every image another label than the network has learned."""
    run, _ = trained(KINDS["imagefolder"], SMALL, tmp_path, figures)
    for part in ("train", "val"):
        folder = tmp_path / "data" / "pictures" / part
        (folder / "ant").rename(folder / "zebra")
    for command in (["evaluate"], ["analyze", "--only", "calibration"]):
        call = [command[0], str(run.path), *command[1:], "--data_root", str(tmp_path / "data")]
        assert main(call) == 2
        assert "must have the classes that the run was trained on" in capsys.readouterr().err
