"""Atomic writes: exchange of folders, locks, and remains of killed processes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from geq import atomic_io
from geq.atomic_io import exclusively, explained_write_errors, remove_leftovers, replace_folder, write_durably
from geq.errors import CheckpointError, DataError


def folder_with(path: Path, text: str) -> Path:
    path.mkdir()
    (path / "file").write_text(text)
    return path


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_takes_the_place_of_another(
    can_exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_exchange:
        monkeypatch.setattr(atomic_io, "_exchange", lambda one, other: False)
    new, place = folder_with(tmp_path / "new", "new"), folder_with(tmp_path / "place", "old")
    replace_folder(new, place)
    assert (place / "file").read_text() == "new"
    assert (new / "file").read_text() == "old"
    replace_folder(new, tmp_path / "free")
    assert (tmp_path / "free" / "file").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["free", "place"]


def test_the_old_folder_comes_back_when_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_io, "_exchange", lambda one, other: False)
    place = folder_with(tmp_path / "place", "old")
    with pytest.raises(FileNotFoundError):
        replace_folder(tmp_path / "absent", place)
    assert (place / "file").read_text() == "old"


def test_leftovers_are_files_and_folders_of_that_name_only(tmp_path: Path) -> None:
    folder_with(tmp_path / ".net.1.tmp", "left")
    (tmp_path / ".net.2.tmp").write_text("left")
    (tmp_path / ".other.1.tmp").write_text("of another process")
    (tmp_path / "net").write_text("result")
    remove_leftovers(tmp_path, ".net.*.tmp")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.1.tmp", "net"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_the_lock_of_a_killed_process_is_free(kind: str, tmp_path: Path) -> None:
    lock = tmp_path if kind == "folder" else tmp_path / "lock"
    code = (
        "import sys, time, pathlib; from geq.atomic_io import exclusively\n"
        "with exclusively(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    waiter = subprocess.Popen(
        [sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    time.sleep(0.3)
    assert waiter.poll() is None
    os.kill(holder.pid, signal.SIGKILL)
    assert waiter.stdout is not None
    assert waiter.stdout.readline() == "held\n"
    waiter.kill()
    for process in (holder, waiter):
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    with exclusively(lock):
        pass


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with (
        pytest.raises(CheckpointError, match=r"gone cannot be written .*: the folder is gone"),
        explained_write_errors(gone, "Safe."),
    ):
        write_durably(gone / "file", b"content")
    # ... and not every file that is missing is a folder that is gone.
    with pytest.raises(FileNotFoundError), explained_write_errors(tmp_path, "Safe."):
        (tmp_path / "absent").read_bytes()


def test_the_kind_of_the_error_is_the_caller_s(tmp_path: Path) -> None:
    with (
        pytest.raises(DataError, match="the disk is full"),
        explained_write_errors(tmp_path, "Safe.", "--data_root", DataError),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
