"""The trade-off of table 8: rows are trained, measured, recorded, and not run twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from geq.cli import main
from geq.errors import CheckpointError, OptionError
from geq.training.run_folder import RunFolder
from geq.training.train_options import TrainOptions
from geq_papers.tradeoff import Tradeoff, TradeoffOptions
from geq_papers.tradeoff_setting import TradeoffSetting

Small = Callable[..., TrainOptions]
FEW = TradeoffOptions(unrolled=(2, 12), thresholds=(0.01,))


@pytest.fixture
def study(small: Small) -> Tradeoff:
    return Tradeoff(FEW, small(model="opteq_tiny", epochs=1))


def run(study: Tradeoff) -> tuple[list[str], list[float]]:
    """Trained settings, and the residual of every row."""
    trained: list[str] = []

    def remember(setting: TradeoffSetting) -> None:
        trained.append(setting.name)

    return trained, [row.residual for row in study.continue_until_done(remember)]


@pytest.mark.nightly
def test_rows_are_measured_once(study: Tradeoff) -> None:
    trained, residuals = run(study)
    assert trained == ["unrolled-2", "unrolled-12", "implicit-0.01"]
    few, many, solved = residuals
    assert few > 3 * many
    assert solved <= 0.01
    rows = study.rows()
    assert rows["unrolled, K = 12"].evaluations == 12
    assert rows["unrolled, K = 12"].inference > rows["unrolled, K = 2"].inference
    assert all(row.back_propagation > 0 and row.training > 0 for row in rows.values())
    folder = RunFolder.find(study.folder / "implicit-0.01")
    assert folder.options().override == {"tol": 0.01, "gradient_tol": 0.01}
    result = folder.result()
    assert result is not None
    assert result["test_accuracy"] == rows["IFT, threshold 0.01"].accuracy

    assert run(study) == ([], residuals)
    more = replace(study, chosen=replace(FEW, unrolled=(2, 3, 12)))
    assert run(more)[0] == ["unrolled-3"]
    with pytest.raises(OptionError, match=r"runs with other options \(epochs\).*another --study"):
        run(replace(study, base=replace(study.base, epochs=2)))
    study.record.unlink()  # the runs are finished: only measured again
    before = RunFolder.find(study.folder / "unrolled-2").log()
    assert run(study)[0] == trained
    assert RunFolder.find(study.folder / "unrolled-2").log() == before
    study.record.write_text("{")
    with pytest.raises(CheckpointError, match="delete it; the runs beside it are kept"):
        run(study)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--runs", str(tmp_path), "--train_size", "64", "--epochs", "1", "--threads", "1"]
    chosen = ["--unrolled", "[2]", "--thresholds", "[0.01]", "--study", "first"]
    assert main(["tradeoff", *arguments, *chosen]) == 0
    printed = capsys.readouterr().out
    assert "unrolled, K = 2" in printed
    assert "IFT, threshold 0.01" in printed
    lines = (tmp_path / "first" / "tradeoff.jsonl").read_text().splitlines()
    assert [json.loads(line)["label"] for line in lines] == ["unrolled, K = 2", "IFT, threshold 0.01"]
    assert (tmp_path / "first" / "tradeoff.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model": "resnet_tiny"},
            "differentiated in several ways, such as deep_opteq_tiny: got resnet_tiny",
        ),
        ({"model": "opteq_tiny", "gradient": "phantom"}, "sets gradient, steps and name"),
        ({"model": "opteq_tiny", "name": "mine"}, "--study names the folder"),
    ],
)
def test_what_it_sets_itself_is_refused(changes: dict[str, str], message: str, small: Small) -> None:
    with pytest.raises(OptionError, match=message):
        Tradeoff(FEW, small(**changes))


def test_bad_options_are_refused() -> None:
    with pytest.raises(OptionError, match="at least 1 iteration each"):
        TradeoffOptions(unrolled=(5, 0))
    with pytest.raises(OptionError, match=r"thresholds must be in \(0, 1\)"):
        TradeoffOptions(thresholds=(0.0,))
    with pytest.raises(OptionError, match="something to compare"):
        TradeoffOptions(unrolled=(), thresholds=())
