"""``geq report`` as a person calls it, with the experiments that the package has."""

from __future__ import annotations

from pathlib import Path

import pytest

from geq.cli import main
from geq_papers.experiment.experiment_registry import EXPERIMENTS
from geq_papers.experiment.plan import plan_job
from synthetic_records import record, records, write


def real_records() -> list:  # type: ignore[type-arg]
    """Two seeds of two arms of a real experiment, as it is configured now."""
    experiment = EXPERIMENTS["geq-table-1a"]
    found = []
    for arm, level in (("geq", 70.0), ("mopteq", 68.0)):
        job = plan_job(experiment, "small", arm, 0, "runs")
        for seed in range(2):
            found.append(record(experiment.name, arm, seed, level, {"config_hash": job.config_hash}))
    return found


def test_page_and_tables_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "results", real_records())
    output = tmp_path / "new" / "page.html"
    arguments = ["report", str(tmp_path / "results"), "--output", str(output)]
    arguments += ["--markdown", str(tmp_path / "md"), "--csv", str(tmp_path / "csv")]
    assert main(arguments) == 0
    assert "4 runs" in capsys.readouterr().out
    text = output.read_text(encoding="utf-8")
    assert EXPERIMENTS["geq-table-1a"].claims[0].text in text
    names = {path.stem for path in (tmp_path / "md").glob("*.md")}
    assert names == {path.stem for path in (tmp_path / "csv").glob("*.csv")}
    assert {"claims", "geq-table-1a-small", "cost-of-a-run", "errata-and-gaps", "runs"} <= names


def test_records_of_another_configuration_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = [one for one in records() if (one.experiment, one.arm) == ("geq-table-1a", "geq")]
    write(tmp_path, real_records() + old)
    assert main(["report", str(tmp_path), "--output", str(tmp_path / "page.html")]) == 0
    out = capsys.readouterr().out
    assert "of another configuration" in out
    assert "4 runs" in out


def test_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path), "--output", str(tmp_path / "page.html")]) == 2
    assert "geq reproduce" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_a_misspelt_option_and_a_place_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path), "--ouput", "x"]) == 2
    assert "--output" in capsys.readouterr().err
    write(tmp_path / "results", real_records())
    (tmp_path / "file").write_text("")
    assert main(["report", str(tmp_path / "results"), "--output", str(tmp_path / "file" / "page.html")]) == 2
    assert "choose another place" in capsys.readouterr().err
