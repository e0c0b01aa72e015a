"""Obstacles of ``geq reproduce`` are reported before the work, and the rest is done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from geq.cli import main
from geq.command.terminal import console_for
from geq.errors import CheckpointError, OptionError
from geq_papers.command import reproduce
from geq_papers.experiment import runner as runner_module
from geq_papers.experiment.experiment import ScaleName
from geq_papers.experiment.experiment_registry import EXPERIMENTS
from geq_papers.experiment.launcher import LocalLauncher
from geq_papers.experiment.plan import Job, plan
from geq_papers.experiment.progress import RunBars
from geq_papers.experiment.runner import Runner

EXPERIMENT = EXPERIMENTS["geq-table-1a"]

HOLD = """
import sys
from pathlib import Path
from geq.training.run_folder import RunFolder
folder = RunFolder(Path(sys.argv[1]))
folder.path.mkdir(parents=True)
with folder.locked():
    print("held", flush=True)
    sys.stdin.read()
"""
"""A process that writes a run until its input ends."""


def jobs_of(arm: str, folder: Path, scale: ScaleName = "smoke") -> list[Job]:
    return [job for job in plan(EXPERIMENT, scale, 1, folder / "runs") if job.arm == arm]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Job]:
    """A job whose run another process is making."""
    (job,) = jobs_of("resnet", tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(job.folder.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield job
        process.communicate()


def runner_in(folder: Path, patience: float) -> Runner:
    return Runner(
        LocalLauncher(1), folder / "results", folder / "runs" / "log", RunBars(quiet=True), patience=patience
    )


def test_a_run_that_another_process_makes_is_left_to_it(held: Job, tmp_path: Path) -> None:
    runner = runner_in(tmp_path, patience=0.5)
    with runner.watcher.watching([held]):  # type: ignore[attr-defined]
        began = time.monotonic()
        runner.run([held])
    assert time.monotonic() - began < 60
    (said,) = runner.failures.values()
    assert said == f"another process is writing {held.folder.path}: wait for it, or stop it"


@pytest.mark.slow
def test_meanwhile_the_others_are_made(held: Job, tmp_path: Path) -> None:
    (free,) = jobs_of("mopteq", tmp_path)
    runner = runner_in(tmp_path, patience=0.5)
    with runner.watcher.watching([held, free]):  # type: ignore[attr-defined]
        runner.run([held, free])
    assert list(runner.failures) == ["geq-table-1a resnet, seed 0"]
    assert runner.missing([held, free]) == [held]


def test_a_damaged_run_is_not_taken_for_one_in_use(tmp_path: Path) -> None:
    (job,) = jobs_of("resnet", tmp_path)
    work = runner_module.grouped([job])[0]
    assert not work.folder.in_use()
    job.folder.path.mkdir(parents=True)
    assert not work.folder.in_use()
    (job.folder.path / "log.jsonl").write_text("{broken")
    assert not work.folder.in_use()
    assert runner_module.finished_epochs(work) == 0


def unwritable(tmp_path: Path) -> Path:
    """A folder that this user may not write, also if that is root."""
    if os.geteuid() == 0:
        return Path("/sys/kernel")
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    return folder


@pytest.mark.parametrize("odd", [False, True], ids=["without permission", "where nothing can be made"])
def test_results_that_cannot_be_written_are_told_before_the_work(
    odd: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if odd and not Path("/proc").is_dir():
        pytest.skip("no such place here")
    results = Path("/proc/results") if odd else unwritable(tmp_path) / "results"
    chosen = ["geq-table-1a", "--scale", "smoke", "--only", "resnet"]
    where = ["--results", str(results), "--runs", str(tmp_path / "runs")]
    assert main(["reproduce", *chosen, *where]) == 2
    said = capsys.readouterr().err
    assert f"{results} cannot be written" in said
    assert "choose another with --results" in said
    assert "Nothing was started" in said
    assert not list((tmp_path / "runs").glob("*/config.yaml"))


@pytest.mark.parametrize(("option", "other"), [("results", "runs"), ("runs", "results")])
def test_a_file_in_place_of_a_folder(option: str, other: str, tmp_path: Path) -> None:
    (tmp_path / option).touch()
    runner = Runner(
        LocalLauncher(1), tmp_path / "results", tmp_path / "runs" / "log", RunBars(quiet=True), patience=0.0
    )
    with pytest.raises(CheckpointError, match=f"is a file: choose another folder with --{option}"):
        runner.run(jobs_of("resnet", tmp_path / "elsewhere"))
    assert not list(tmp_path.glob("*/*/config.yaml"))
    assert other != option


def test_unknown_experiments_name_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "opteq-tabel-8", "--scale", "smoke"]) == 2
    assert "did you mean 'opteq-table-8'?" in capsys.readouterr().err


def test_missing_data_is_named_with_its_command_for_scripts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GEQ_DATA", str(tmp_path / "empty"))
    where = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main(["reproduce", "opteq-table-10", "--scale", "smoke", "--json", *where]) == 1
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["experiments"] == []
    assert "geq data fetch camvid" in found["left_out"]["opteq-table-10"]
    assert "opteq-table-10 is left out" in said.err
    assert main(["reproduce", "opteq-table-10", "--scale", "smoke", "--quiet", *where]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "geq data fetch camvid" in said.err


class Cluster:
    """A launcher with so many GPUs, for the estimate alone."""

    def __init__(self, gpus: int) -> None:
        self.gpus, self.slots = gpus, 2


def test_paper_is_estimated_on_what_it_will_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = plan(EXPERIMENT, "paper", 1, tmp_path)
    console = console_for()
    with pytest.raises(OptionError, match=r"meant for GPUs.*days on 2 cores.*--yes"):
        reproduce.announce(jobs, Cluster(0), "paper", False, console)  # type: ignore[arg-type]
    reproduce.announce(jobs, Cluster(0), "paper", True, console)  # type: ignore[arg-type]
    slow = capsys.readouterr().out
    reproduce.announce(jobs, Cluster(2), "paper", False, console)  # type: ignore[arg-type]
    fast = capsys.readouterr().out
    assert "days" in slow
    assert slow != fast


def test_an_address_is_of_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["geq-table-1a", "--scale", "smoke", "--only", "resnet", "--address", "head:6379"]
    assert main(["reproduce", *chosen, "--runs", str(tmp_path)]) == 2
    assert "--launcher ray" in capsys.readouterr().err
