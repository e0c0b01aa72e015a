"""Options of models and datasets behind their names; help and errors in words; answers without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from geq.cli import main
from geq.training.train_options import TrainOptions

Shown = pytest.CaptureFixture[str]


def printed(capsys: Shown, *arguments: str) -> TrainOptions:
    """Return what would be trained."""
    assert main(["train", *arguments, "--print_config"]) == 0
    return TrainOptions.from_mapping(yaml.safe_load(capsys.readouterr().out))


def test_nested_options_have_the_types_of_their_fields(capsys: Shown) -> None:
    options = printed(
        capsys,
        *(
            "--model",
            "geq_small",
            "--model.patch",
            "4",
            "--model.mid-channels=[8, 8, 8]",
            "--model.tol",
            "1e-2",
        ),
        *("--data", "imagefolder", "--data.folder", "2024", "--data.image_size=32"),
    )
    assert options.override == {"mid_channels": [8, 8, 8], "patch": 4, "tol": 0.01}
    assert options.data_override == {"folder": "2024", "image_size": 32}


def test_later_ones_replace_earlier_ones(tmp_path: Path, capsys: Shown) -> None:
    config = tmp_path / "own.yaml"
    config.write_text("model.gamma: fixed\nmodel.bound: 0.8\nepochs: 7\n")
    preset = ("--preset", "paper/geq_cifar10_8m")
    options = printed(capsys, *preset, "--config", str(config), "--epochs", "3", "--model.bound", "0.7")
    assert options.override == {"gamma": "fixed", "gradient": "phantom", "bound": 0.7}
    assert (options.epochs, options.model) == (3, "geq_cifar_8m")
    assert printed(capsys, *preset, "--model.gamma", "zero").override == {
        "gamma": "zero",
        "gradient": "phantom",
    }
    assert printed(capsys, *preset, "--model", "resnet18").override == {}


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["train", "--model.ptach", "4"], "did you mean '--model.patch'"),
        (
            ["train", "--model", "resnet18", "--model.patch", "4"],
            "unknown option of geq train '--model.patch'",
        ),
        (["train", "--model.patch", "x"], "--model.patch must be a whole number: got x;"),
        (["train", "--model.gamma", "lerned"], "--model.gamma must be one of learned, learned_group,"),
        (["train", "--data.image_size", "big"], "--data.image_size must be a whole number: got big;"),
        (["train", "--epochs", "many"], "--epochs must be a whole number: got many;"),
        (["train", "--milestones", "3"], "--milestones must be a list of numbers: got 3;"),
        (["train", "--window", "[3]"], "--window must be a list of 2 whole numbers: got [3];"),
        (["train", "--validation", "some"], "--validation must be a number or official: got some;"),
        (["train", "--data.clases", "known"], "did you mean '--data.classes'"),
        (["tune", "--model.ptach", "4"], "did you mean '--model.patch'"),
        (["tradeoff", "--model.alhpa", "1"], "did you mean '--model.alpha'"),
        (["evaluate", "geq-digits", "--data.clases", "known"], "did you mean '--data.classes'"),
        (["analyze", "geq-digits", "--data.clases", "known"], "did you mean '--data.classes'"),
        (["explain", "geq-digits", "--data.clases", "known"], "did you mean '--data.classes'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_answered_in_words(arguments: list[str], answer: str, capsys: Shown) -> None:
    assert main(arguments) == 2
    assert answer in capsys.readouterr().err


def test_a_file_with_an_unknown_field_is_refused(tmp_path: Path, capsys: Shown) -> None:
    config = tmp_path / "own.yaml"
    config.write_text("model: geq_small\nmodel.ptach: 4\n")
    assert main(["train", "--config", str(config)]) == 2
    assert "unknown option of geq_small 'ptach'; did you mean 'patch'" in capsys.readouterr().err


def test_a_run_is_evaluated_on_other_options_of_its_data(tmp_path: Path, capsys: Shown) -> None:
    found = []
    for options in ([], ["--data.subset", "40"]):
        asked = ["evaluate", "geq-digits", "--runs", str(tmp_path), *options, "--json"]
        assert main(asked) == 0
        found.append(json.loads(capsys.readouterr().out)["images"])
    assert found == [360, 40]


@pytest.mark.parametrize("command", ["train", "evaluate", "data list"])
def test_help_speaks_of_values_in_words(command: str, capsys: Shown) -> None:
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    text = capsys.readouterr().out
    assert "Dashes and underscores" in text
    for word in ("type:", "Optional", "Literal", "<class", "null", "Union"):
        assert word not in text
    if command == "train":
        assert "passes over the training set. (a whole number; default: 20)" in " ".join(text.split())


def test_options_are_known_without_torch() -> None:
    """Help, completion and misspelt names answer at once."""
    code = (
        "import sys; from geq.command.completion_words import whole_syntax; assert len(whole_syntax()) > 20; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
