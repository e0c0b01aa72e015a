"""SIGKILL at random moments: the run that is resumed each time ends with the bits of the undisturbed one."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from geq.training.fit import resume, train
from geq.training.run_folder import CONFIG, RunFolder
from geq.training.train_options import TrainOptions

KILLS = 12


def in_child(work: Callable[[], object]) -> int:
    """Do ``work`` in a child process, which has everything loaded already; returns its id."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    return pid


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_again_and_again(small: Callable[..., TrainOptions]) -> None:
    changes = {"model": "geq_tiny", "train_size": 192, "epochs": 3, "checkpoint_steps": 1}
    whole = train(small(name="whole", **changes))
    assert whole is not None
    seconds = sum(record["seconds"] for record in whole.history)
    options = small(name="killed", **changes)
    folder = RunFolder(Path(options.runs) / "killed")
    moments = random.Random(0)
    kills = 0
    for _ in range(200):
        exists = (folder.path / CONFIG).exists()
        pid = in_child((lambda: resume(folder)) if exists else (lambda: train(options)))
        if kills < KILLS:
            time.sleep(moments.uniform(0.1, 0.1 + 2.5 * seconds / KILLS))
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            kills += 1
            continue
        assert os.waitstatus_to_exitcode(status) == 0
        break
    assert kills >= 10, "it ended before it was killed often enough to mean anything"
    assert (folder.model / "model.safetensors").read_bytes() == (
        whole.folder.model / "model.safetensors"
    ).read_bytes()
    for ours, theirs in zip(folder.log(), whole.folder.log(), strict=True):
        assert {k: v for k, v in ours.items() if "seconds" not in k} == {
            k: v for k, v in theirs.items() if "seconds" not in k
        }
    assert not list(folder.path.glob(".*.tmp"))
