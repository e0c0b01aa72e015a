"""The cheap part of ``python -m stress fault``, and its pieces."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from stress.fault.campaign import KINDS, run
from stress.fault.child import writes
from stress.fault.trial import same

DIE = """
import sys, pathlib
from stress.fault.child import dying
folder = pathlib.Path(sys.argv[1])
dying(int(sys.argv[2]), folder)()
from geq.atomic_io import write_durably
write_durably(folder / "a", b"new")
write_durably(folder / "b", b"new")
"""


def test_a_kill_before_each_operation_leaves_old_or_new(tmp_path: Path) -> None:
    """And each operation is met: the first ones leave both files old, the last ones only the first new."""
    seen = set()
    for number in range(12):
        for name in ("a", "b"):
            (tmp_path / name).write_text("old")
        code = subprocess.run([sys.executable, "-c", DIE, str(tmp_path), str(number)], check=False).returncode
        seen.add(((tmp_path / "a").read_text(), (tmp_path / "b").read_text(), code == 0))
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert seen == {("old", "old", False), ("new", "old", False), ("new", "new", True)}


def test_what_counts_as_writing() -> None:
    assert writes(("file", "w", os.O_WRONLY | os.O_CREAT))
    assert not writes(("file", "r", os.O_RDONLY))


def test_same_sees_one_bit() -> None:
    import torch

    one = {"a": [torch.ones(2), {"seconds": 1.0}], "b": (1, "x")}
    assert same(one, {"a": [torch.ones(2), {"seconds": 2.0}], "b": (1, "x")})
    assert not same(one, {"a": [torch.tensor([1.0, 1.0000001]), {}], "b": (1, "x")})
    assert not same(one, {"a": [torch.ones(2), {}], "b": (1, "y")})


def lost(*kinds: str) -> list[tuple[str, object]]:
    rows = list(run(True, 0, kinds))
    assert rows
    return [(row.what, row.detail) for row in rows if not row.held]


@pytest.mark.slow
def test_cheap_faults_are_survived() -> None:
    assert lost("fetching", "corruption", "readonly") == []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"fetching", "corruption", "readonly"}))
def test_faults_are_survived(kind: str) -> None:
    assert lost(kind) == []
