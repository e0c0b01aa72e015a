"""``geq models`` and ``geq show`` as a person calls them."""

from __future__ import annotations

import json

import pytest

from geq.cli import main


def test_the_table_lists_size_cost_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "resnet50"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "resnet50" in line]
    for cell in ("25.6M", "4.09G", "3×224×224", "OptEq table 7", "ImageNet 75.1 / 92.5"):
        assert cell in row


def test_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "node_*172k", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["node_cifar_172k"]["parameters"] == 172_358
    assert rows["node_cifar_172k"]["input_shape"] == [3, 32, 32]
    assert rows["node_augmented_cifar_172k"]["reported"] == "CIFAR-10 60.6"


def test_show_draws_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "resnet_tiny", "--num_classes", "3"]) == 0
    text = capsys.readouterr().out
    assert "resnet_tiny ResNet 1×8×8 → 3" in text
    assert "Conv2d (3×3, stride 2) 16×8×8 → 32×4×4" in text
    assert main(["show", "resnet_tiny", "--depth", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) < len(text.splitlines()) / 4


def test_show_counts_repeated_calls(capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", "node_tiny", "--depth", "1"])
    assert "called 16 times" in capsys.readouterr().out, "four Runge–Kutta steps of four evaluations"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["models", "--jsn"], "did you mean '--json'"),
        (["models", "resnett*"], "unknown model pattern 'resnett*'"),
        (["show", "resnet_tny"], "did you mean 'resnet_tiny'"),
        (["show", "resnet_tiny", "--depht=2"], "did you mean '--depth'"),
        (["show", "resnet_tiny", "--depth", "deep"], "--depth must be a whole number: got deep"),
        (["show"], "required: name"),
        (["modles"], "did you mean 'models'"),
    ],
)
def test_mistakes_are_answered(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
