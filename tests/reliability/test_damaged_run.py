"""Runs whose files were cut, whose folder is read-only, whose helpers were killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from geq.data.dataset import Statistics
from geq.data.loader import BatchLoader, WorkerDeath
from geq.data.transform.base import Normalize
from geq.errors import CheckpointError, DataError
from geq.training.fit import TrainingOutcome, resume, train
from geq.training.loop import Loop
from geq.training.process_monitor import ProcessLost, ProcessMonitor, explained_deaths
from geq.training.run_folder import CONFIG, LOG, RunFolder
from geq.training.task import ClassificationTask
from geq.training.train_options import TrainOptions

TOLD = "DataLoader worker (pid 12345) is killed by signal: Killed. "
"""The words of torch."""


def options(tmp_path: Path, **changes: Any) -> TrainOptions:
    small = {"model": "dnn_tiny", "train_size": 96, "batch_size": 32, "epochs": 2, "threads": 1}
    return TrainOptions(
        **{**small, "picture": False, "runs": str(tmp_path / "runs"), "name": "run", **changes}
    )


def timeless(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if "seconds" not in k} for record in records]


def finished(outcome: TrainingOutcome | None) -> TrainingOutcome:
    assert outcome is not None
    return outcome


def cut(path: Path, length: int) -> None:
    os.truncate(path, length)


def test_a_cut_log_is_written_again_from_the_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = finished(train(options(tmp_path))).folder
    whole, weights = folder.log(), (folder.model / "model.safetensors").read_bytes()
    cut(folder.path / LOG, (folder.path / LOG).stat().st_size - 40)
    with pytest.raises(CheckpointError, match=r"log\.jsonl"):
        folder.log()
    resume(folder)
    assert "the log is written again from the last checkpoint" in caplog.text
    assert timeless(folder.log()) == timeless(whole)
    assert (folder.model / "model.safetensors").read_bytes() == weights
    cut(folder.path / LOG, 10)
    folder.checkpoint.unlink()
    with pytest.raises(CheckpointError, match=r"log\.jsonl"):
        resume(folder)


def test_no_cut_of_the_options_is_taken_for_other_options(tmp_path: Path) -> None:
    """YAML cut at a line is still YAML, and its missing options have defaults."""
    folder = RunFolder.create(options(tmp_path, epochs=37, seed=5))
    from geq.training.setup import DataDescription

    data = DataDescription("digits", ("0", "1"), Statistics((0.0,), (1.0,)), (1, 8, 8))
    folder.describe(options(tmp_path, epochs=37, seed=5), {}, data)
    text = (folder.path / CONFIG).read_bytes()
    assert folder.options().epochs == 37
    for length in range(0, len(text), 7):
        (folder.path / CONFIG).write_bytes(text[:length])
        with pytest.raises(CheckpointError):
            folder.options()
    # As earlier versions wrote it.
    (folder.path / CONFIG).write_bytes(text.removeprefix(b"---\n").removesuffix(b"...\n"))
    assert folder.options().epochs == 37


def test_a_picture_that_a_kill_prevented_is_drawn_when_resumed(tmp_path: Path) -> None:
    folder = finished(train(options(tmp_path, picture=True, epochs=1))).folder
    folder.picture.unlink()
    resume(folder)
    assert folder.picture.read_bytes().startswith(b"\x89PNG")


def test_asking_for_the_state_neither_writes_nor_disturbs(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.state() == "stopped"
    assert not list(tmp_path.iterdir())
    with folder.locked():
        assert folder.state() == "running"
        with pytest.raises(CheckpointError, match="another process is writing"), RunFolder(tmp_path).locked():
            raise AssertionError
    assert folder.state() == "stopped"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_workers_that_outlive_a_training_do_not_hold_its_lock(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    reading, writing = os.pipe()
    with folder.locked():
        pid = os.fork()
        if pid == 0:
            os.write(writing, b"x")
            time.sleep(60)
            os._exit(0)
        assert os.read(reading, 1) == b"x"
        assert folder.in_use()
    assert not folder.in_use()
    assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reading)
    os.close(writing)


def test_a_run_that_cannot_be_locked_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(CheckpointError, match=r"the folder is gone.*Nothing was changed"),
        RunFolder(tmp_path / "gone").locked(),
    ):
        raise AssertionError


def test_leftovers_of_a_killed_save_are_cleared(tmp_path: Path) -> None:
    folder = finished(train(options(tmp_path, epochs=1))).folder
    (folder.path / LOG).unlink()
    left = folder.model / ".model.safetensors.abc.tmp"
    left.write_bytes(b"half")
    resume(folder)
    assert not left.exists()


class Faulty:
    """Images that are there until they are not."""

    name, split, classes = "faulty", "train", ("a", "b")
    statistics = Statistics((0.0,), (1.0,))

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def __len__(self) -> int:
        return 64

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        if 40 in indices.tolist():
            self.act()
        number = len(indices)
        return torch.zeros(number, 1, 4, 4, dtype=torch.uint8), torch.zeros(number, dtype=torch.int64)

    def subset(self, indices: Any) -> Faulty:
        return self


def missing() -> None:
    raise DataError("40.png is missing: fetch or unpack the dataset again")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def batches(act: Callable[[], object]) -> Iterator[Any]:
    data: Any = Faulty(act)
    return iter(BatchLoader(data, 8, transform=Normalize.by(data.statistics), num_workers=1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_an_error_in_a_worker_keeps_its_words() -> None:
    with pytest.raises(DataError) as caught:
        list(batches(missing))
    assert str(caught.value) == "40.png is missing: fetch or unpack the dataset again"


# torch tells of a death wherever Python is, and that may be where Hypothesis measures the garbage collection.
DEATH = pytest.mark.filterwarnings("ignore:.*gc_cumulative_time:pytest.PytestUnraisableExceptionWarning")


@pytest.mark.slow
@DEATH
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_the_death_of_a_worker_is_explained() -> None:
    with pytest.raises(DataError, match=r"a process that makes batches has died .*fewer --workers"):
        list(batches(die))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@DEATH
@pytest.mark.parametrize("act", [missing, die])
def test_an_error_keeps_no_worker(act: Callable[[], object]) -> None:
    before = set(multiprocessing.active_children())
    with pytest.raises(DataError) as caught:
        list(batches(act))
    assert caught.value  # held, as pytest and notebooks hold it
    assert set(multiprocessing.active_children()) <= before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_workers_take_no_random_numbers() -> None:
    """Else a run that resumes, which starts them once more, would go on with others."""
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    list(batches(lambda: None))
    assert torch.equal(torch.rand(3), expected)


def test_torch_tells_of_a_dead_worker_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its handler of signals raises in the middle of whatever is being done."""

    def act(self: Loop, *rest: Any) -> None:
        raise RuntimeError(TOLD)

    monkeypatch.setattr(Loop, "step", act)
    with pytest.raises(ProcessLost, match=r"has died .*The last checkpoint is whole.*--resume"):
        train(options(tmp_path))


@pytest.mark.parametrize("problem", [WorkerDeath("a process has died."), RuntimeError(TOLD)])
def test_whoever_tells_of_the_death_says_how_to_continue(problem: Exception) -> None:
    with pytest.raises(ProcessLost, match=r"died.* Continue\.$"), explained_deaths("Continue."):
        raise problem


def test_a_worker_that_dies_in_the_last_evaluation_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(*arguments: Any) -> None:
        raise RuntimeError(TOLD)

    options_of_it = options(tmp_path, epochs=1)
    with monkeypatch.context() as patch:
        patch.setattr(ClassificationTask, "evaluate", act)
        with pytest.raises(ProcessLost, match="--resume"):
            train(options_of_it)
    assert finished(resume(RunFolder.find("run", options_of_it.runs))).final["test_accuracy"] > 0


def test_other_errors_are_not_explained_away() -> None:
    with pytest.raises(RuntimeError, match="Connection closed by peer"), explained_deaths("Safe."):
        raise RuntimeError("Connection closed by peer")  # without a group of processes, not a lost one


def test_the_first_process_says_which_other_has_died(caplog: pytest.LogCaptureFixture) -> None:
    lives, dies = (subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(2))
    dies.kill()
    ProcessMonitor("Safe.").watch([lives, dies])
    assert "process 2 of this training ended by SIGKILL: all of it ends. Safe." in caplog.text
    lives.kill()
    for process in (lives, dies):
        process.wait()
