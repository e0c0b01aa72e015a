"""The commands train, evaluate, predict, runs and compare."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from geq.cli import main
from geq.errors import InputError
from geq.model.model_registry import create_model
from geq.training.evaluation import evaluate
from geq.training.fit import train
from geq.training.prediction import fitted
from geq.training.run_folder import RunFolder
from geq.training.setup import evaluation_loader, open_split
from geq.training.train_options import TrainOptions

GEQ = Path(sys.executable).with_name("geq")
Small = Callable[..., TrainOptions]


@pytest.fixture
def trained(small: Small) -> RunFolder:
    outcome = train(small(model="geq_tiny", name="first", epochs=1))
    assert outcome is not None
    return outcome.folder


def write_digits(folder: Path, number: int) -> list[Path]:
    """Test images of the digits as PNG files of 8×8 pixels."""
    from PIL import Image

    images, _ = open_split(TrainOptions(), "test").batch(torch.arange(number))
    paths = [folder / f"{index}.png" for index in range(number)]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image[0].numpy()).save(path)
    return paths


def test_misspelt_options_name_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--learning-rat", "0.1"]) == 2
    assert "did you mean '--learning_rate'" in capsys.readouterr().err
    assert main(["train", "--preset", "quik"]) == 2
    assert "did you mean 'quick'" in capsys.readouterr().err
    assert main(["train", "--model", "geq_tny", "--runs", "/nonexistent/x"]) == 2
    assert "did you mean 'geq_tiny'" in capsys.readouterr().err
    assert main(["train", "--epochs", "many"]) == 2
    assert "epochs" in capsys.readouterr().err


def test_config_files_name_no_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("model:\n  class_path: subprocess.Popen\n  init_args: {args: [touch, attacked]}\n")
    assert main(["train", "--config", str(config)]) == 2
    assert "model" in capsys.readouterr().err
    config.write_text("epoch: 3\n")
    assert main(["train", "--config", str(config)]) == 2
    assert "epoch" in capsys.readouterr().err


@pytest.mark.slow
def test_without_options_the_digits_are_trained(tmp_path: Path) -> None:
    """As `make run` does."""
    done = subprocess.run([GEQ, "train", "--json"], capture_output=True, text=True, cwd=tmp_path, timeout=500)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["test_accuracy"] > 97


def test_print_config_is_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--preset", "quick", "--epochs", "3", "--model.bound", "0.8", "--model.patch", "1"]
    assert main(["train", *arguments, "--print_config"]) == 0
    printed = capsys.readouterr().out
    (tmp_path / "config.yaml").write_text(printed)
    assert main(["train", "--config", str(tmp_path / "config.yaml"), "--print-config"]) == 0
    assert capsys.readouterr().out == printed
    assert "epochs: 3" in printed
    assert "model.patch: 1\nmodel.bound: 0.8\n" in printed


def test_help_comes_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out
    for title in ("model:", "data:", "optimiser:", "schedule:", "run:", "devices:"):
        assert f"\n{title}\n" in text


def test_resume_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--resume", "x", "--epochs", "3"]) == 2
    assert "give it alone" in capsys.readouterr().err
    assert main(["train", "--resume", "x"]) == 2
    assert "unknown run" in capsys.readouterr().err


def test_evaluate_gives_the_run_s_own_figures(trained: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(trained.path), "--json", "--batch_size", "77"]) == 0
    values = json.loads(capsys.readouterr().out)
    final = trained.result()
    assert final is not None
    assert values["accuracy"] == final["test_accuracy"]
    assert values["loss"] == pytest.approx(final["test_loss"], rel=1e-5)
    assert values["images"] == 360
    matrix = np.array(values["confusion"])
    assert matrix.sum() == 360
    assert 100 * matrix.trace() / 360 == pytest.approx(values["accuracy"])
    digits = open_split(TrainOptions(), "test")
    expected = torch.bincount(digits.labels, minlength=10).tolist()  # type: ignore[union-attr]
    assert matrix.sum(1).tolist() == expected, "a row for each true class"
    shares = 100 * matrix.diagonal() / matrix.sum(1)
    assert list(values["class_accuracy"].values()) == pytest.approx(shares.tolist())
    assert Path(values["picture"]) == trained.evaluation / "test.png"
    assert main(["evaluate", str(trained.path)]) == 0
    assert re.search(rf"\n +3 +{expected[3]} +\d", capsys.readouterr().out)


def test_evaluate_needs_no_place_for_its_picture(
    trained: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run may be on a disk that cannot be written to."""
    trained.evaluation.write_text("a file in its place")
    assert main(["evaluate", str(trained.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["picture"] is None


def test_evaluate_works_from_a_copy_of_the_folder(
    trained: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another machine: another place, and nothing but the folder."""
    trained.path.rename(tmp_path / "elsewhere")
    assert main(["evaluate", "elsewhere", "--runs", str(tmp_path), "--split", "train"]) == 0
    printed = capsys.readouterr().out
    assert "elsewhere on digits (train)" in printed
    assert re.search(r"images +96\b", printed), "the images that it was trained on"
    assert "not converged" in printed


def test_evaluate_names_what_is_wrong(trained: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(trained.path), "--data", "cifr10"]) == 2
    assert "did you mean 'cifar10'" in capsys.readouterr().err
    (trained.model / "config.json").unlink()
    assert main(["evaluate", str(trained.path)]) == 2
    assert "config.json" in capsys.readouterr().err


def test_evaluate_refuses_data_with_more_classes() -> None:
    model = create_model("dnn_tiny", num_classes=3)
    digits = open_split(TrainOptions(), "test")
    with pytest.raises(InputError, match="has 3 classes; digits has 10"):
        evaluate(model, evaluation_loader(digits, statistics=digits.statistics))


def test_predict(trained: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = write_digits(tmp_path, 3)
    assert main(["predict", str(trained.path), *map(str, paths), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [row["path"] for row in answer["predictions"]] == list(map(str, paths))
    for row in answer["predictions"]:
        assert row["label"] in "0123456789"
        assert 0.1 <= row["confidence"] <= 1
        assert row["converged"]
        assert row["steps"] >= 1
    assert set(answer["certificates"]) == {"branches.0", "branches.1"}
    assert main(["predict", str(trained.path), str(paths[0])]) == 0
    printed = capsys.readouterr().out
    assert "confidence" in printed
    assert "For every image there is exactly one equilibrium" in printed


def test_predict_takes_folders_and_goes_on_after_a_damaged_file(
    trained: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = tmp_path / "photos" / "inside"
    inside.mkdir(parents=True)
    paths = write_digits(inside, 3)
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    assert main(["predict", str(trained.path), str(tmp_path / "photos"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [row["path"] for row in answer["predictions"]] == list(map(str, paths))
    labels = [row["label"] for row in answer["predictions"]]
    paths[1].write_bytes(b"damaged")
    assert main(["predict", str(trained.path), str(tmp_path / "photos"), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert [row["label"] for row in answer["predictions"]] == [labels[0], labels[2]]
    assert [row["path"] for row in answer["predictions"]] == [str(paths[0]), str(paths[2])]
    [error] = answer["errors"]
    assert f"{paths[1]} is not an image" in error
    assert main(["predict", str(trained.path), str(tmp_path / "photos")]) == 1
    assert f"error  {paths[1]} is not an image" in capsys.readouterr().out


def test_predict_names_what_is_not_there(
    trained: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(trained.path), str(tmp_path / "missing.png")]) == 2
    assert f"there is no file {tmp_path / 'missing.png'}\n" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["predict", str(trained.path), str(tmp_path / "empty")]) == 2
    assert f"the folder {tmp_path / 'empty'} has no images (.jpeg" in capsys.readouterr().err


def test_pictures_come_as_the_network_saw_them(tmp_path: Path, trained: RunFolder) -> None:
    images, _ = open_split(TrainOptions(), "test").batch(torch.arange(4))
    loaded = torch.cat([fitted(path, trained.data()) for path in write_digits(tmp_path, 4)])
    assert np.abs(loaded.int().numpy() - images.int().numpy()).max() <= 1


def test_runs_and_compare(trained: RunFolder, small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    options = small(name="second", epochs=1, learning_rate=0.01)
    train(options)
    assert main(["runs", "--runs", options.runs, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["state"], row["epoch"]) for row in rows] == [
        ("first", "finished", 1),
        ("second", "finished", 1),
    ]
    (trained.path / "log.jsonl").write_text("{")
    assert main(["runs", "--runs", options.runs]) == 0
    assert "damaged" in capsys.readouterr().out
    (trained.path / "log.jsonl").unlink()
    assert main(["runs", "--runs", options.runs]) == 0
    assert "stopped" in capsys.readouterr().out
    assert main(["compare", "first", "second", "--runs", options.runs, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["options"] == {"model": ["geq_tiny", "dnn_tiny"], "learning_rate": [0.05, 0.01]}
    assert answer["results"]["test accuracy (%)"][0] is None
    assert main(["compare", "first", "second", "--runs", options.runs]) == 0
    assert "learning_rate" in capsys.readouterr().out
    assert main(["compare", "first", "--runs", options.runs]) == 2
    assert main(["compare", "first", "secnd", "--runs", options.runs]) == 2
    assert "did you mean 'second'" in capsys.readouterr().err


def test_an_empty_folder_has_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--runs", str(tmp_path)]) == 0
    assert "geq train" in capsys.readouterr().out


@pytest.mark.slow
def test_ctrl_c_and_resume_by_the_installed_command(tmp_path: Path) -> None:
    """From the shell: start, Ctrl-C, resume, and the same result as without."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    small = ["--train_size=128", "--batch_size=16", "--epochs=3", "--picture=true"]
    whole = subprocess.run(
        [str(GEQ), "train", "--name=whole", *small],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert whole.returncode == 0, whole.stderr
    assert "test accuracy" in whole.stdout
    assert re.search(r"picture +runs/whole/picture.png", whole.stdout)
    process = subprocess.Popen(
        [str(GEQ), "train", "--name=parts", *small],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()  # the line of the first epoch
    process.send_signal(signal.SIGINT)
    output, problems = process.communicate(timeout=120)
    assert process.returncode == 130, problems
    assert "geq train --resume runs/parts" in output
    resumed = subprocess.run(
        [str(GEQ), "train", "--resume", "runs/parts"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stderr == ""
    weights = [
        (tmp_path / "runs" / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "parts")
    ]
    assert weights[0] == weights[1]


def test_help_is_quick() -> None:
    """The table of commands without torch: under half a second of CPU beyond Python itself."""

    def cpu(*command: str) -> float:
        before = os.times()
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    start = time.perf_counter()
    bare = min(cpu(sys.executable, "-c", "pass") for _ in range(3))
    assert min(cpu(str(GEQ), "--help") for _ in range(3)) - bare < 0.5
    assert time.perf_counter() - start < 60
