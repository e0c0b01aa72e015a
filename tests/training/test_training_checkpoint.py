"""Checkpoints: whole or refused; durable writes; random generators."""

from __future__ import annotations

import errno
import hashlib
import io
import pickle
import random
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from geq.atomic_io import explained_write_errors, remove_leftovers, write_durably
from geq.errors import CheckpointError
from geq.training.checkpoint import FORMAT, Checkpoint, random_state, restore_random_state


def example() -> Checkpoint:
    return Checkpoint(
        position={"epoch": 1, "batch": 2, "step": 3},
        model={"weight": torch.arange(6.0).reshape(2, 3)},
        norms={"W.constraint": {"weight": torch.ones(2, 3), "direction": torch.ones(1, 3)}},
        optimizer={
            "state": {0: {"momentum_buffer": torch.ones(2)}},
            "param_groups": [{"lr": 0.1, "params": [0]}],
        },
        scaler={},
        average=None,
        measures={"loss": torch.tensor(0.5)},
        callbacks={"Stop": {"best": 0.3}},
        history=[{"kind": "epoch", "epoch": 1}],
        random=random_state(),
    )


def test_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    saved = example()
    saved.save(path)
    loaded = Checkpoint.load(path)
    assert torch.equal(loaded.model["weight"], saved.model["weight"])
    assert loaded.position == saved.position
    assert loaded.callbacks == saved.callbacks
    assert loaded.history == saved.history
    assert list(tmp_path.iterdir()) == [path]


def test_cut_or_altered_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    example().save(path)
    content = path.read_bytes()
    for length in (0, 1, 31, 32, 33, len(content) // 2, len(content) - 33, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="damaged"):
            Checkpoint.load(path)
    for place in range(0, len(content), 97):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(CheckpointError, match="damaged"):
            Checkpoint.load(path)


class Attack:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return (eval, ("__import__('os').environ.__setitem__('GEQ_ATTACKED', '1')",))


@pytest.mark.parametrize("content", [pickle.dumps(Attack(), protocol=2), b"nonsense"], ids=["attack", "text"])
def test_reading_runs_no_code(content: bytes, tmp_path: Path) -> None:
    import os

    path = tmp_path / "last.ckpt"
    path.write_bytes(content + hashlib.sha256(content).digest())
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        Checkpoint.load(path)
    assert "GEQ_ATTACKED" not in os.environ


def test_other_formats_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    torch.save({"format": 99}, path)
    content = path.read_bytes()
    path.write_bytes(content + hashlib.sha256(content).digest())
    with pytest.raises(CheckpointError, match="another version"):
        Checkpoint.load(path)


def test_random_generators_go_on() -> None:
    def draw() -> tuple[float, float, float, float]:
        return float(torch.rand(())), float(np.random.normal()), random.random(), random.gauss(0, 1)  # noqa: NPY002

    draw()
    state = random_state()
    expected = draw()
    draw()
    restore_random_state(state)
    assert draw() == expected


@pytest.fixture
def small_files() -> Iterator[None]:
    """The system refuses files above 64 kB, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, small_files: None) -> None:
    path = tmp_path / "file"
    write_durably(path, b"old")
    with (
        pytest.raises(CheckpointError, match=r"ulimit -f.*All is safe"),
        explained_write_errors(tmp_path, "All is safe."),
    ):
        write_durably(path, bytes(1 << 20))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("problem", "advice"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "free some space"),
        (OSError(errno.EROFS, "Read-only file system"), "read-only: choose another folder with --runs"),
        (
            RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),
            "free some space",
        ),
    ],
)
def test_system_errors_are_explained(problem: Exception, advice: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=advice), explained_write_errors(tmp_path, "Safe."):
        raise problem


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), explained_write_errors(tmp_path, "Safe."):
        raise ZeroDivisionError


def test_killed_while_writing(tmp_path: Path) -> None:
    """A process that dies in the middle of a write leaves the old file and a leftover that is cleaned."""
    path = tmp_path / "file"
    write_durably(path, b"old")
    code = (
        "import os, signal, sys; from pathlib import Path; from geq import atomic_io;"
        "os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL);"
        "atomic_io.write_durably(Path(sys.argv[1]), b'new')"
    )
    result = subprocess.run([sys.executable, "-c", code, str(path)])
    assert result.returncode == -9
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [path]


def test_each_process_goes_on_with_its_own(tmp_path: Path) -> None:
    own = {"measures": {"sum": torch.tensor(2.0)}, "callbacks": {}, "random": {"torch": torch.zeros(2)}}
    replace(example(), others=[own]).save(tmp_path / "last.ckpt")
    loaded = Checkpoint.load(tmp_path / "last.ckpt")
    assert loaded.of_process(0) is loaded
    assert loaded.of_process(1).measures == own["measures"]
    assert loaded.of_process(1).model is loaded.model
    assert loaded.of_process(2) is loaded  # one that did not exist when it was saved


def write(path: Path, values: dict[str, Any]) -> None:
    """As a checkpoint is written, whatever it holds."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **values}, buffer)
    content = buffer.getvalue()
    path.write_bytes(content + hashlib.sha256(content).digest())


@pytest.mark.parametrize("others", [[1], [{"measures": {}}], {"measures": {}}])
def test_others_of_another_type_are_refused(others: Any, tmp_path: Path) -> None:
    write(tmp_path / "last.ckpt", {**vars(example()), "others": others})
    with pytest.raises(CheckpointError, match="others"):
        Checkpoint.load(tmp_path / "last.ckpt")


def test_files_of_earlier_versions_have_no_others(tmp_path: Path) -> None:
    values = vars(example())
    write(tmp_path / "last.ckpt", {name: value for name, value in values.items() if name != "others"})
    assert Checkpoint.load(tmp_path / "last.ckpt").others == []
