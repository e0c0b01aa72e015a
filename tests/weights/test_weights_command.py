"""``geq weights``, and the other commands with a network that comes with the package."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from geq.cli import main
from geq.data.dataset_registry import load_dataset
from geq.model.shipped_networks import FOLDER, shipped_folder, shipped_names
from geq.training.fit import train
from geq.training.run_folder import RunFolder
from geq.training.train_options import TrainOptions
from geq.weights.card import Card, card_text, disk_size, read_card
from geq.weights.training_command import training_command
from saved_runs import saved_run

Shown = pytest.CaptureFixture[str]


def package_state() -> dict[str, tuple[int, int]]:
    """Every file and folder of the shipped networks, with size and time of the last change."""
    found = [path for name in shipped_names() for path in (FOLDER / name).rglob("*")]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


@pytest.fixture
def untouched() -> Iterator[None]:
    """Fails where the package was written into."""
    before = package_state()
    yield
    assert package_state() == before


def picture(folder: Path) -> Path:
    """A test digit as a file."""
    from PIL import Image

    image, _ = load_dataset("digits", "test").batch(torch.tensor([0]))
    path = folder / "digit.png"
    Image.fromarray(image[0, 0].numpy()).save(path)
    return path


def test_the_list(capsys: Shown) -> None:
    assert main(["weights"]) == 0
    shown = capsys.readouterr().out
    assert main(["weights", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == shipped_names()
    for row in rows:
        card = read_card(shipped_folder(row["name"]))
        assert row["name"] in shown
        assert f"{card.test.accuracy:.2f} %" in shown
        assert row["accuracy"] == card.test.accuracy
        assert row["bytes"] == disk_size(shipped_folder(row["name"]))


def test_a_card(capsys: Shown) -> None:
    assert main(["weights", "geq-digits"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("# geq-digits\n")
    assert card_text(read_card(shipped_folder("geq-digits"))).endswith(shown)
    assert main(["weights", "geq-digits", "--json"]) == 0
    assert Card.from_mapping(json.loads(capsys.readouterr().out)) == read_card(shipped_folder("geq-digits"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["geq-digit"], "did you mean 'geq-digits'"),
        (["--pack", "nothing"], "needs --name"),
        (["--name", "geq-digits"], "goes with --pack"),
        (["--pak", "run"], "did you mean '--pack'"),
    ],
)
def test_mistakes(arguments: list[str], said: str, capsys: Shown) -> None:
    assert main(["weights", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_predict_takes_the_name(tmp_path: Path, capsys: Shown, untouched: None) -> None:
    assert main(["predict", "geq-digits", str(picture(tmp_path)), "--runs", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    _, label = load_dataset("digits", "test").batch(torch.tensor([0]))
    assert found["predictions"][0]["label"] == str(int(label))
    assert len(found["certificates"]) == 2


@pytest.mark.slow
def test_explain_writes_elsewhere(tmp_path: Path, capsys: Shown, untouched: None) -> None:
    runs = tmp_path / "runs"
    assert main(["explain", "geq-digits", "--index", "0", "--runs", str(runs)]) == 0
    assert len(list((runs / "geq-digits" / "explain").glob("*.png"))) == 2


@pytest.mark.slow
def test_analyze_writes_elsewhere(tmp_path: Path, capsys: Shown, untouched: None) -> None:
    runs = tmp_path / "runs"
    saved_run(runs, "mine", model="dnn_tiny")
    few = ["--limit", "10", "--corruptions", "fog", "--runs", str(runs)]
    asked = ["--only", "certificate,corruption", "--images", "2"]
    assert main(["analyze", "geq-digits", *asked, *few]) == 0
    kept = {path.name for path in (runs / "geq-digits" / "analysis").iterdir()}
    assert {"certificate.json", "corruption.json", "corruption.png"} <= kept
    # Beside another run what is kept of it goes there as well, and is found again.
    assert main(["analyze", "mine", "--only", "corruption", "--beside", "geq-digits", "--json", *few]) == 0
    out = capsys.readouterr().out
    assert {"mine", "geq-digits"} == set(json.loads(out[out.index("{\n") :])["corruption"]["runs"])
    assert {path.name for path in (runs / "geq-digits" / "analysis").iterdir()} == kept
    # A run may still be given that name.
    assert RunFolder.create(TrainOptions(name="geq-digits", runs=str(runs))).path == runs / "geq-digits"


def trained_run(runs: Path, name: str = "mine") -> RunFolder:
    options = TrainOptions(
        name=name,
        runs=str(runs),
        train_size=96,
        batch_size=32,
        epochs=1,
        picture=False,
        threads=1,
        data_root=str(runs),
    )
    outcome = train(options)
    assert outcome is not None
    return outcome.folder


@pytest.mark.slow
def test_pack_measures_and_writes_a_run(tmp_path: Path, capsys: Shown) -> None:
    runs, output = tmp_path / "runs", tmp_path / "packed"
    trained_run(runs)
    asked = ["weights", "--pack", "mine", "--name", "my-digits", "--images", "10"]
    asked += ["--runs", str(runs), "--output", str(output)]
    assert main([*asked, "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    folder = output / "my-digits"
    assert written["folder"] == str(folder)
    assert [path.name for path in output.iterdir()] == ["my-digits"]
    card = read_card(folder)
    assert card == Card.from_mapping(written["card"])
    assert (folder / "README.md").read_text() == card_text(card)
    assert (card.corruption.images, card.calibration.images, card.training.train_images) == (10, 360, 96)
    assert card.calibration.nll == pytest.approx(card.test.loss, rel=1e-3)
    assert str(tmp_path) not in "".join(path.read_text() for path in folder.glob("*.*"))
    # It is a run like any other, and measures the same.
    assert main(["evaluate", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == card.test.accuracy
    before = (folder / "card.json").stat().st_mtime_ns
    assert main(asked) == 2
    assert "exists already" in capsys.readouterr().err
    assert (folder / "card.json").stat().st_mtime_ns == before
    assert main([*asked, "--force"]) == 0
    assert (folder / "card.json").stat().st_mtime_ns > before
    assert read_card(folder) == card


def test_pack_refuses_an_unfinished_run(tmp_path: Path, capsys: Shown) -> None:
    run = saved_run(tmp_path, "half")
    asked = ["weights", "--pack", str(run.path), "--name", "half", "--output", str(tmp_path / "packed")]
    assert main(asked) == 2
    said = capsys.readouterr().err
    assert "only a finished run has a card" in said
    assert "--resume" in said
    assert not (tmp_path / "packed").exists()


def test_pack_refuses_what_is_too_large(tmp_path: Path, capsys: Shown) -> None:
    run = saved_run(tmp_path, "large", model="geq_tiny", override={"mid_channels": [320, 320]})
    run.write_log([{"kind": "final", "epochs": 1, "cpu_seconds": 0.0}])
    assert os.path.getsize(run.model / "model.safetensors") > 1_000_000
    asked = ["weights", "--pack", str(run.path), "--name", "large", "--output", str(tmp_path / "packed")]
    assert main(asked) == 2
    assert "at most 1,000,000 bytes" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Digits", "a b", "../a", "a--b", ""])
def test_pack_wants_a_plain_name(name: str, tmp_path: Path, capsys: Shown) -> None:
    asked = ["weights", "--pack", "geq-digits", f"--name={name}", "--runs", str(tmp_path)]
    assert main([*asked, "--output", str(tmp_path / "packed")]) == 2
    assert "small letters, digits and single hyphens" in capsys.readouterr().err


def test_the_command_names_what_differs_from_a_preset() -> None:
    options = TrainOptions(
        model="geq_small", data="cifar10", override={"patch": 4, "gamma": "zero"}, nesterov=False, seed=3
    )
    command = training_command(options)
    assert "--model.patch 4 --model.gamma zero" in command
    assert "--nesterov false" in command
    assert "--seed 3" in command
