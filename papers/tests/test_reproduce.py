"""``geq reproduce``, for real: in processes, killed and resumed, with what is missing or misspelt."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from geq.cli import main
from geq.errors import OptionError
from geq_papers.command import reproduce
from geq_papers.experiment.comparison import outcome
from geq_papers.experiment.experiment import ScaleName
from geq_papers.experiment.experiment_registry import EXPERIMENTS
from geq_papers.experiment.launcher import LocalLauncher
from geq_papers.experiment.plan import grouped, plan, usable
from geq_papers.experiment.record import Record, add_record, read_records
from geq_papers.experiment.terminal_tables import claims_of, table_of

EXPERIMENT = EXPERIMENTS["geq-table-1a"]


def command(folder: Path, *more: str) -> list[str]:
    start = [sys.executable, "-m", "geq.cli", "reproduce", "geq-table-1a", "--scale", "smoke"]
    return [*start, "--results", str(folder / "results"), "--runs", str(folder / "runs"), *more]


def records_of(folder: Path) -> list[Record]:
    records, complaints = read_records(folder / "results")
    assert complaints == []
    return sorted(records, key=lambda record: (record.arm, record.seed))


def result_of(record: Record) -> dict[str, object]:
    """Figures that must not depend on the number of interruptions."""
    epochs = [{k: v for k, v in line.items() if "seconds" not in k} for line in record.epochs]
    return {
        "arm": record.arm,
        "seed": record.seed,
        "hash": record.config_hash,
        "epochs": epochs,
        "metrics": record.metrics,
        "solver": record.solver,
    }


@pytest.mark.nightly
def test_killed_in_the_middle_it_ends_with_the_undisturbed_result(tmp_path: Path) -> None:
    chosen = ("--only", "resnet,geq", "--seeds", "2", "--workers", "1")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    subprocess.run(command(whole, *chosen), check=True, capture_output=True, timeout=600)
    process = subprocess.Popen(
        command(killed, *chosen), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    # As soon as the second training has an epoch behind it.
    deadline = time.monotonic() + 300
    while len(list((killed / "runs").glob("*/last.ckpt"))) < 2 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(records_of(killed)) < 4, "it was not killed in the middle"
    finished = {path: path.stat().st_mtime_ns for path in (killed / "runs").glob("*/record-*.json")}
    again = subprocess.run(command(killed, *chosen), check=True, capture_output=True, text=True, timeout=600)
    assert [result_of(r) for r in records_of(killed)] == [result_of(r) for r in records_of(whole)]
    assert {path: path.stat().st_mtime_ns for path in finished} == finished  # not made again
    assert "GEQ table 1a" in again.stdout
    assert "no claim is judged by a smoke test" in " ".join(again.stdout.split())

    # A third time there is nothing left to do, and nothing is done.
    third = subprocess.run(command(killed, *chosen), check=True, capture_output=True, text=True, timeout=600)
    assert "4 of 4 records are there already" in third.stdout
    assert len(records_of(killed)) == 4


def made_up(arm: str, seed: int, accuracy: float, config_hash: str) -> Record:
    return Record(
        experiment="geq-table-1a",
        scale="smoke",
        arm=arm,
        seed=seed,
        config_hash=config_hash,
        config={},
        commit=None,
        versions={},
        machine={},
        epochs=[],
        metrics={"test_accuracy": accuracy, "parameters": 20_000},
        solver={},
        cpu_seconds=1.0,
        wall_seconds=1.0,
        finished="2026-01-01T00:00:00Z",
    )


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Records of every arm with three seeds, in which GEQ is better than all, and ResNet-18 by far not."""
    jobs = plan(EXPERIMENT, "smoke", 3, tmp_path / "runs")
    for job in jobs:
        accuracy = {"geq": 92.0, "resnet": 95.0}.get(job.arm, 90.0) + job.seed + 0.1 * len(job.arm) * job.seed
        add_record(
            tmp_path / "results" / "smoke" / "geq-table-1a.jsonl",
            made_up(job.arm, job.seed, accuracy, job.config_hash),
        )
    return tmp_path


def call(folder: Path, *more: str) -> int:
    return main(command(folder, *more)[3:])


def printed(scale: ScaleName, folder: Path) -> str:
    """The made-up records, shown as of another scale."""
    records = [replace(record, scale=scale) for record in records_of(folder)]
    found = outcome(EXPERIMENT, scale, records)
    stream = io.StringIO()
    console = Console(width=200, file=stream)
    console.print(table_of(found))
    console.print(claims_of(found))
    return stream.getvalue()


def test_table_and_verdicts(judged: Path) -> None:
    shown = printed("small", judged)
    assert "Accuracy on CIFAR-10 (scale small)" in shown
    assert "94.60 ± 0.20" in shown  # MOptEq, published
    assert "93.30 ± 1.30" in shown  # GEQ, obtained
    assert "GEQ is better than MDEQ: holds" in shown
    assert "GEQ is better than ResNet-18: fails" in shown
    assert "GEQ is better than ResNet-50: not run" in shown


def test_a_smoke_test_cannot_be_taken_for_a_result(judged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(judged, "--seeds", "3") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "smoke test: tiny networks on a few small images; the figures mean nothing" in shown
    assert "93.30 ± 1.30" in shown
    assert "no claim is judged by a smoke test" in shown
    for word in ("CIFAR-10", "published", "94.60", "obtained +", "holds"):
        assert word not in shown


def test_another_configuration_is_kept_but_not_used(judged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = judged / "results" / "smoke" / "geq-table-1a.jsonl"
    add_record(path, made_up("geq", 0, 10.0, "of long ago"))
    before = path.read_text()
    assert call(judged, "--seeds", "3") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "arm geq: 1 record of another configuration (of long ago;" in shown
    assert "93.30 ± 1.30" in shown
    assert path.read_text() == before
    used, complaints = usable(EXPERIMENT, "smoke", read_records(path)[0])
    assert "of long ago" not in {record.config_hash for record in used}
    assert len(complaints) == 1


def test_broken_lines_are_named(judged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = judged / "results" / "smoke" / "geq-table-1a.jsonl"
    path.write_text("{broken\n" + path.read_text() + json.dumps({"loss": 1}) + "\n")
    assert call(judged, "--seeds", "3") == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "line 1: not JSON" in shown
    assert "93.30 ± 1.30" in shown


def test_without_a_name_it_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["geq-tabel-1a"], "did you mean 'geq-table-1a'"),
        (["geq-table-1a", "--sclae", "smoke"], "did you mean '--scale'"),
        (["geq-table-1a", "--scale", "smoke", "--only", "geqq"], "did you mean 'geq'"),
        (["geq-table-1a", "--scale", "smoke", "--seeds", "0"], "at least 1"),
        (["geq-table-1a", "--scale", "smoke", "--workers", "999"], "one for each of the cores"),
        (["geq-table-1a", "--scale", "smoke", "--part", "3/2"], "I from 1 to N"),
        (["geq-table-1a", "--scale", "huge"], "huge"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["reproduce", *arguments, *(["--runs", str(tmp_path)] if "--scale" in arguments else [])]) == 2
    )
    assert said in capsys.readouterr().err


def test_missing_data_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEQ_DATA", str(tmp_path / "empty"))
    where = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main(["reproduce", "geq-table-1b", "--scale", "small", *where]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "geq-table-1b is left out" in shown
    assert "geq data fetch cifar100" in shown


@pytest.mark.skipif(reproduce.gpu_count() > 0, reason="there is a GPU")
def test_paper_without_gpu_estimates_and_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reproduce, "missing_data", lambda jobs: None)
    where = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main(["reproduce", "geq-table-3", "--scale", "paper", "--only", "mopteq", *where]) == 2
    said = capsys.readouterr().err
    assert "days" in said
    assert "--yes" in said
    assert not (tmp_path / "runs").exists()


def test_parts_share_the_trainings() -> None:
    jobs = [
        job for name in ("geq-table-1a", "geq-figure-3") for job in plan(EXPERIMENTS[name], "smoke", 2, "r")
    ]
    parts = [reproduce.of_part(jobs, jobs, f"{number}/3") for number in (1, 2, 3)]
    folders = [{work.folder.path for work in grouped(part)} for part in parts]
    assert sum(map(len, folders)) == len(set().union(*folders)) == len(grouped(jobs))
    assert sorted(job.record_file for part in parts for job in part) == sorted(j.record_file for j in jobs)


def test_cores_are_never_oversubscribed() -> None:
    with pytest.raises(OptionError, match="one for each of the cores"):
        LocalLauncher(workers=10_000)


@pytest.mark.slow
def test_a_failure_is_told_and_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = next(job for job in plan(EXPERIMENT, "smoke", 1, tmp_path / "runs") if job.arm == "resnet")
    broken.folder.path.mkdir(parents=True)
    (broken.folder.path / "config.yaml").write_text("modle: resnet_tiny\n")
    assert call(tmp_path, "--only", "resnet,mopteq", "--workers", "1") == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "geq-table-1a resnet, seed 0 failed: " in shown
    assert "did you mean 'model'" in shown
    assert [record.arm for record in records_of(tmp_path)] == ["mopteq"]
