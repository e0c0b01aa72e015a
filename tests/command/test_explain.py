"""``geq explain``: pictures and tables of real runs, and what happens with wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from geq.analysis.explanation import Explainer
from geq.cli import main
from geq.errors import InputError
from geq.training.fit import train
from geq.training.prediction import Predictor
from geq.training.run_folder import RunFolder
from geq.training.setup import open_split
from geq.training.train_options import TrainOptions


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of a few steps: Gaussian and linear kernels, a deep equilibrium, and a network without any."""
    folder = tmp_path_factory.mktemp("runs")
    for model in ("geq_tiny", "mopteq_tiny", "deep_opteq_tiny", "resnet_tiny"):
        options = TrainOptions(
            model=model,
            name=model,
            runs=str(folder),
            epochs=1,
            train_size=96,
            batch_size=32,
            picture=False,
            threads=1,
        )
        assert train(options) is not None
    return folder


@pytest.fixture
def digit(tmp_path: Path) -> Path:
    """A test image as a file, three times as large."""
    image, _ = open_split(TrainOptions(), "test").batch(torch.tensor([4]))
    path = tmp_path / "four.png"
    Image.fromarray(image[0, 0].numpy()).resize((40, 24)).save(path)
    return path


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as picture:
        picture.load()
        return picture.size


@pytest.mark.slow
def test_test_images_side_by_side(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "pictures"
    arguments = ["explain", "geq_tiny", "--runs", str(runs), "--index", "4", "--output", str(output)]
    arguments += ["--against", "mopteq_tiny", "resnet_tiny", "deep_opteq_tiny", "--json"]
    assert main(arguments) == 0
    (found,) = json.loads(capsys.readouterr().out)
    names = [Path(name).name for name in found["files"]]
    assert names == [
        "test-4.saliency.png",
        "test-4.geq_tiny.equilibrium.png",
        "test-4.mopteq_tiny.equilibrium.png",
        "test-4.deep_opteq_tiny.equilibrium.png",
    ]
    assert all(min(size_of(output / name)) > 300 for name in names)
    geq, mopteq, resnet, deep = found["networks"]
    assert found["error"] is None
    assert list(geq["equilibria"]) == ["branch 0", "branch 1"]
    assert 0 < geq["equilibria"]["branch 0"]["beta_least"] <= geq["equilibria"]["branch 0"]["beta_mean"] <= 1
    assert geq["relative_distance_bound"] is not None
    assert mopteq["equilibria"]["branch 0"]["beta_mean"] is None
    assert mopteq["equilibria"]["branch 0"]["energy"] < 0
    assert resnet["steps"] is None
    assert resnet["equilibria"] == {}
    assert "no equilibrium" in resnet["notes"][0]
    assert deep["equilibria"]["equilibrium"]["energy"] is None
    first = {name: (output / name).read_bytes() for name in names}
    assert main(arguments) == 0
    assert all((output / name).read_bytes() == content for name, content in first.items())


def test_files_are_read_as_predict_reads_them(
    runs: Path, digit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(runs / "geq_tiny")
    arguments = ["explain", str(folder.path), str(digit), "--target", "3", "--branch", "1", "--json"]
    assert main(arguments) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [Path(name).parent for name in found["files"]] == [folder.path / "explain"] * 2
    (network,) = found["networks"]
    explainer = Explainer(folder)
    expected = Predictor(explainer.model, explainer.data).predict(digit)
    assert network["class"] == expected.label
    assert network["confidence"] == pytest.approx(expected.confidence, rel=1e-5)
    assert network["target"] == "3"
    assert network["saliency_at"] == "branch 1"
    assert list(network["equilibria"]) == ["branch 1"]


def test_a_bad_file_does_not_stop_the_others(
    runs: Path, digit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "note.png"
    text.write_text("not an image")
    again = tmp_path / "other" / "four.png"
    again.parent.mkdir()
    again.write_bytes(digit.read_bytes())
    arguments = ["explain", str(runs / "resnet_tiny"), str(text), str(digit), str(again)]
    assert main([*arguments, "--output", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().out
    assert f"error  {text}: {text} is not an image that can be read" in said
    assert "note   resnet_tiny: no equilibrium" in said
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "four-2.saliency.png",
        "four.saliency.png",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "zebra"], "unknown class of digits 'zebra'"),
        (["--branch", "7"], "branch must lie in 0..1"),
        (["--layer", "stm"], "did you mean 'stem'"),
        (["--branch", "0", "--layer", "stem"], "give one of them"),
        (["--index", "100000"], "indices must lie in 0.."),
        (["--agains", "x"], "did you mean '--against'"),
        (["--against", "nothing"], "unknown run"),
        (["--json", "four.png"], "images come right after RUN"),
        (["--output", "/dev/null/x", "--index", "0"], "choose another with --output"),
    ],
)
def test_wrong_options_are_explained(
    runs: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", str(runs / "geq_tiny"), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_branch_of_a_network_without_equilibria(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(runs / "resnet_tiny"), "--branch", "0"]) == 2
    assert "no equilibrium, so no branch 0" in capsys.readouterr().err


def test_an_array_of_another_size_is_refused(runs: Path) -> None:
    explainer = Explainer(RunFolder(runs / "geq_tiny"))
    with pytest.raises(InputError, match=r"shape \(1, 8, 8\): got \(3, 32, 32\)"):
        explainer.explain(torch.from_numpy(np.zeros((1, 3, 32, 32), np.uint8)))


def test_any_layer_can_be_looked_at(runs: Path) -> None:
    """Also one in front of the equilibria, through which the gradient then goes."""
    explainer = Explainer(RunFolder(runs / "geq_tiny"))
    image, _ = open_split(TrainOptions(), "test").batch(torch.tensor([0]))
    found = explainer.explain(image, layer="stem")
    assert found.place == "stem"
    assert found.saliency is not None
    assert float(found.saliency.max()) > 0
