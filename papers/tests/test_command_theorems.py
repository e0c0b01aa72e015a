from __future__ import annotations

import json

import pytest

from geq.cli import main
from geq_papers.command.theorems import NAMES
from geq_papers.theorem import THEOREMS


def test_the_command_names_the_theorems() -> None:
    assert list(NAMES) == list(THEOREMS)


def test_statements_are_checked_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theorems", "--only", "lemma-3, theorem-5", "--seeds", "2"]) == 0
    shown = capsys.readouterr().out
    assert "lemma-3" in shown
    assert shown.count("holds") == 2


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theorems", "--only", "lemma-3", "--seeds", "1", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["name"] == "lemma-3"
    assert row["holds"]
    assert row["largest_error"] < 1e-8


@pytest.mark.parametrize(
    "arguments, told", [(["--only", "theorem-9"], "theorem-"), (["--seeds", "0"], "at least 1: got 0")]
)
def test_bad_input(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theorems", *arguments]) == 2
    assert told in capsys.readouterr().err
