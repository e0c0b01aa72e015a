"""``geq train`` and ``geq evaluate`` count solves that fail, instead of the layer's own warning."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path

import pytest

import geq
from geq.cli import main


def test_failures_are_counted_not_repeated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["--train_size", "64", "--batch_size", "32", "--epochs", "2", "--evaluate_every", "1"]
    hard = ["--model", "opteq_tiny", "--model.max_steps", "2", "--runs", str(tmp_path), "--name", "hard"]
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, "geq"):
        warnings.simplefilter("error", geq.ConvergenceWarning)
        assert main(["train", *hard, *few]) == 0
    printed = capsys.readouterr().out
    assert "not converged 100.0 %" in printed
    told = [record.getMessage() for record in caplog.records if "missed the tolerance" in record.getMessage()]
    assert len(told) == 1, "once, and again only after the share has doubled"
    assert "epoch 1: 100.0 % of the samples" in told[0]

    lines = (tmp_path / "hard" / "log.jsonl").read_text().splitlines()
    *epochs, final = map(json.loads, lines)
    assert [line["solver_unconverged"] for line in epochs if "solver_unconverged" in line] == [1.0, 1.0]
    assert final["test_unconverged"] == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", geq.ConvergenceWarning)
        assert main(["evaluate", "hard", "--runs", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unconverged"] == 1.0
