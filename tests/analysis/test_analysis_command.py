"""``geq analyze`` from end to end, on runs with fresh weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import geq
from geq.analysis.result import Result, TextTable
from geq.analysis.settings import PARTS, Settings, chosen
from geq.cli import main
from geq.training.run_folder import RunFolder
from geq.training.setup import build_model, open_datasets
from geq.training.train_options import TrainOptions

FEW = ["--images", "4", "--train_images", "40", "--draws", "5", "--steps", "2"]
THEORY = "certificate,bounds"


def made(tmp_path: Path, model: str, *, saved: bool = True) -> Path:
    """The folder of a run of this model on digits, as it is after training."""
    options = TrainOptions(model=model, runs=str(tmp_path), name=model, threads=1)
    folder = RunFolder.create(options)
    data = open_datasets(options).describe()
    folder.describe(options, {}, data)
    if saved:
        build_model(options, data).save_pretrained(folder.model)
    return folder.path


@pytest.mark.slow
@pytest.mark.parametrize("model", ["geq_tiny", "mopteq_tiny", "geq_tiny_nonpatch"])
def test_every_part_on_a_run(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made(tmp_path, model)
    assert main(["analyze", str(run), "--only", THEORY, *FEW]) == 0
    shown = capsys.readouterr().out
    for words in ("What the weights prove", "Proposition 2", "Proposition 3", "Proposition 4", "branches.0"):
        assert words in shown
    kept = {path.stem: json.loads(path.read_text()) for path in (run / "analysis").glob("*.json")}
    assert set(kept) == set(chosen(THEORY.split(",")))
    certificate = kept["certificate"]["values"]["branches.0"]
    assert certificate["unique"]
    assert certificate["norms"]["feedback"]["upper"] < 0.96
    for found in kept["lipschitz"]["values"].values():
        for form, bound in found["bounds"].items():
            assert form == "paper" or bound["verdict"] != "violated"
    for pairs in kept["similarity"]["values"].values():
        assert all(found["bounds"]["corrected"]["verdict"] == "holds" for found in pairs.values())
    if model.startswith("geq"):
        assert all(found["holds"] for found in kept["width"]["values"].values())


def test_a_finished_part_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made(tmp_path, "geq_tiny")
    asked = ["analyze", str(run), "--only", "width", *FEW]
    path = run / "analysis" / "width.json"

    def mark() -> None:
        record = json.loads(path.read_text())
        record["notes"] = ["it was me"]
        path.write_text(json.dumps(record))

    assert main(asked) == 0
    mark()
    assert main(asked) == 0
    assert "it was me" in capsys.readouterr().out
    assert main([*asked, "--again"]) == 0
    assert "it was me" not in capsys.readouterr().out
    mark()
    assert main([*asked, "--images", "6"]) == 0
    assert "it was me" not in capsys.readouterr().out, "other settings, other numbers"
    mark()
    path.write_text(path.read_text()[:-20])
    assert main([*asked, "--images", "6"]) == 0
    assert "it was me" not in capsys.readouterr().out, "damaged"
    mark()
    model = geq.model.network.Network.from_pretrained(run / "model")
    model.head.bias.data.add_(1.0)
    model.save_pretrained(run / "model")
    assert main([*asked, "--images", "6"]) == 0
    assert "it was me" not in capsys.readouterr().out, "other weights"


def test_json_instead_of_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made(tmp_path, "geq_tiny")
    assert main(["analyze", str(run), "--only", "width", "--json", *FEW]) == 0
    assert json.loads(capsys.readouterr().out)["width"]["branches.0"]["holds"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--only", "certficate"], "did you mean 'certificate'"),
        (["--onyl", "width"], "did you mean '--only'"),
        (["--images", "1"], "images must be at least 2: got 1"),
        (["--confidence", "2"], "confidence in"),
    ],
)
def test_bad_options(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(tmp_path, "geq_tiny")
    assert main(["analyze", str(run), *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_run_without_an_equilibrium(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made(tmp_path, "resnet_tiny")
    assert main(["analyze", str(run), "--only", "certificate", *FEW]) == 2
    assert "has no equilibrium to analyse: resnet_tiny" in capsys.readouterr().err
    assert not (run / "analysis" / "certificate.json").exists()


def test_a_run_that_has_not_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made(tmp_path, "geq_tiny", saved=False)
    assert main(["analyze", str(run), "--only", "certificate", *FEW]) == 2
    assert "has no trained network to analyse" in capsys.readouterr().err


def test_parts_by_name_and_by_group() -> None:
    assert chosen(["lipschitz", "certificate", "lipschitz"]) == ["certificate", "lipschitz"]
    assert chosen(["bounds"]) == ["lipschitz", "generalisation", "similarity", "width"]
    assert chosen(None) == ["certificate", "calibration"], "theory and what takes long only on request"
    assert chosen(["all"]) == list(PARTS)


def test_results_survive_a_file() -> None:
    result = Result({"a": float("inf"), "b": [1.0]}, (TextTable("t", ("x",), (("1",),)),), ("note",))
    again = Result.from_mapping(json.loads(json.dumps(result.as_mapping(), allow_nan=False)), "here")
    assert again.values == {"a": None, "b": [1.0]}
    assert again.tables == result.tables
    with pytest.raises(geq.errors.CheckpointError, match="here is not a result"):
        Result.from_mapping({"values": {}}, "here")
    assert Settings().images >= 2
