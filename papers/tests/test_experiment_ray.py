"""Trainings on a Ray cluster: of this machine, with two workers, that nobody else can reach."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from geq.errors import MissingExtraError, OptionError
from geq_papers.experiment.ray_launcher import RayLauncher, connect, found_address
from geq_papers.experiment.ray_worker import run_child
from geq_papers.experiment.record import Record, read_records
from geq_papers.experiment.runner import Interrupted

EXPERIMENT = "geq-table-1a"
CHILD = "geq_papers.experiment.training_process"

CLUSTER = """
import sys
from geq_papers.experiment.ray_launcher import RayLauncher
launcher = RayLauncher(address="local")
print(launcher.ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
launcher.close()
"""
"""A process that holds a cluster until its input ends."""


def command(folder: Path, *more: str) -> list[str]:
    start = [sys.executable, "-m", "geq.cli", "reproduce", EXPERIMENT, "--scale", "smoke", "--quiet"]
    return [*start, "--results", str(folder / "results"), "--runs", str(folder / "runs"), *more]


def records_of(folder: Path) -> dict[tuple[str, int], Record]:
    records, complaints = read_records(folder / "results")
    assert complaints == []
    return {(record.arm, record.seed): record for record in records}


def results_of(folder: Path) -> dict[tuple[str, int], object]:
    """Figures that must not depend on the place of a training."""
    return {
        key: (
            record.config_hash,
            record.metrics,
            record.solver,
            [{k: v for k, v in line.items() if "seconds" not in k} for line in record.epochs],
        )
        for key, record in records_of(folder).items()
    }


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a cluster on this machine; a token of its own keeps everyone else out."""
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.communicate(timeout=120)


def processes(argument: str) -> dict[int, dict[str, str]]:
    """The environment of each process here with an argument that contains ``argument``."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and argument.encode() in (entry / "cmdline").read_bytes():
                lines = (entry / "environ").read_bytes().decode().split("\0")
                found[int(entry.name)] = dict(line.split("=", 1) for line in lines if "=" in line)
        except OSError:
            continue  # it has ended
    return found


def until(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 400.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


@pytest.mark.nightly
def test_a_cluster_makes_the_records_that_processes_make(cluster: str, tmp_path: Path) -> None:
    assert cluster.startswith("127.0.0.1:")
    chosen = ("--only", "resnet,mopteq", "--workers", "2")
    here, there = tmp_path / "here", tmp_path / "there"
    subprocess.run(command(here, *chosen), check=True, timeout=500)
    process = subprocess.Popen(
        command(there, *chosen, "--launcher", "ray", "--address", cluster),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    most = 0
    while process.poll() is None:
        running = processes(str(there / "runs"))
        running = {pid: values for pid, values in running.items() if pid != process.pid}
        most = max(most, len(running))
        assert all(values.get("OMP_NUM_THREADS", "1") == "1" for values in running.values() if values)
        time.sleep(0.1)
    assert process.communicate() == ("", "")
    assert process.returncode == 0
    assert 1 <= most <= 2, "one core for each task, and no more"
    assert set(records_of(there)) == {("resnet", 0), ("mopteq", 0)}
    assert results_of(there) == results_of(here)
    # More tasks at a time than there are cores are refused; the cluster is still there.
    refused = subprocess.run(
        command(there, *chosen[:2], "--launcher", "ray", "--address", cluster, "--workers", "99"),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert refused.returncode == 2
    assert "one for each of the cluster's cores: got 99" in refused.stderr


@pytest.mark.nightly
def test_interrupted_it_saves_and_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    chosen = ("--only", "resnet,geq", "--seeds", "2", "--workers", "2")
    here, there = tmp_path / "here", tmp_path / "there"
    subprocess.run(command(here, *chosen), check=True, timeout=500)
    on_ray = command(there, *chosen, "--launcher", "ray", "--address", "local")
    process = subprocess.Popen(on_ray, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: bool(list((there / "runs").glob("*/tensorboard"))), process)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=300) == ("", "")
    assert process.returncode == 130
    assert len(records_of(there)) < 4, "it was not interrupted in the middle"
    assert processes(str(there / "runs")) == {}, "a training outlived its cluster"
    subprocess.run(on_ray, check=True, timeout=500)
    assert results_of(there) == results_of(here)


@pytest.mark.nightly
def test_a_task_that_dies_is_told_and_the_others_go_on(cluster: str, tmp_path: Path) -> None:
    on_ray = command(tmp_path, "--only", "resnet,mopteq", "--workers", "1", "--launcher", "ray")
    process = subprocess.Popen(
        [*on_ray, "--address", cluster], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def trainings() -> list[int]:
        """Of this test, and of no other that may run at the same time."""
        return [pid for pid in processes(str(tmp_path / "runs")) if pid != process.pid]

    until(lambda: bool(trainings()), process)
    (training,) = trainings()
    worker = int(Path(f"/proc/{training}/status").read_text().split("PPid:")[1].split()[0])
    assert Path(f"/proc/{worker}/comm").read_text().startswith("ray::")
    os.kill(worker, signal.SIGKILL)
    _, errors = process.communicate(timeout=500)
    assert process.returncode == 1
    assert "geq-table-1a resnet, seed 0 failed: the cluster's task died" in " ".join(errors.split())
    assert set(records_of(tmp_path)) == {("mopteq", 0)}
    subprocess.run([*on_ray, "--address", cluster], check=True, timeout=500)
    assert set(records_of(tmp_path)) == {("resnet", 0), ("mopteq", 0)}


def test_ray_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"geq-papers\[cluster\]"):
        RayLauncher()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_nobody_at_an_address() -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OptionError, match=f"no Ray cluster can be reached at {address}.*--address local"):
            connect(None, address)


def test_which_cluster_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert found_address() is None
    with pytest.raises(OptionError, match="ray start --head"):
        connect(None, None)
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("10.0.0.1:6379\n")
    assert found_address() == "10.0.0.1:6379"
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert found_address() == "head:6379"


def test_a_machine_without_the_folder_says_so(tmp_path: Path) -> None:
    code, printed = run_child([], str(tmp_path / "elsewhere"), {})
    assert code == 2
    assert b"must share the folder" in printed


def test_the_child_runs_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a program in place of Python that tells what it was given."""
    told = tmp_path / "python"
    told.write_text('#!/bin/sh\necho "$PWD $* $GEQ_DATA $GEQ_OTHER $OMP_NUM_THREADS"\nexit 7\n')
    told.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(told))
    monkeypatch.setenv("GEQ_DATA", "of this machine")
    code, printed = run_child(["a", "b"], str(tmp_path), {"GEQ_DATA": "asked", "GEQ_OTHER": "passed on"})
    assert code == 7
    assert printed.decode() == f"{tmp_path} -m {CHILD} a b of this machine passed on 1\n"


def test_cancelled_the_child_can_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray cancels a task by an exception in its main thread; the child then sees its input end."""
    waits = tmp_path / "python"
    waits.write_text(
        f"#!/bin/sh\necho here > {tmp_path}/begun\ncat > /dev/null\necho saved > {tmp_path}/saved\n"
    )
    waits.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(waits))

    real = time.sleep

    def cancel(seconds: float | int) -> None:
        if (tmp_path / "begun").exists():
            monkeypatch.setattr(time, "sleep", real)
            raise Interrupted("as Ray does")

    monkeypatch.setattr(time, "sleep", cancel)
    with pytest.raises(Interrupted):
        run_child([], str(tmp_path), {})
    assert (tmp_path / "saved").read_text() == "saved\n"
