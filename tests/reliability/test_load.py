"""The demo with a few visitors at once, and every malformed request."""

from __future__ import annotations

import pytest
from stress.load import Memory, flatness, latency
from stress.visitor import Answers


def test_rows_say_what_failed() -> None:
    answers = Answers([0.1, 0.2, 0.3], refused=2, failed=["RuntimeError: lost"])
    row = latency(answers, people=4, seconds=1.0)
    assert (row.tried, row.survived, row.held) == (6, 5, False)
    assert latency(Answers([0.1]), 1, 1.0).held
    assert not latency(Answers(refused=3), 1, 1.0).held, "refusing everybody is no service"


def test_growing_memory_is_noticed() -> None:
    seconds = [float(second) for second in range(200)]
    assert flatness(Memory(seconds, [600.0 + (second % 3) for second in seconds])).held
    assert not flatness(Memory(seconds, [600.0 + second for second in seconds])).held


@pytest.mark.nightly
def test_visitors_and_malformed_requests() -> None:
    pytest.importorskip("gradio")
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from stress.load import attacked
    from stress.visitor import demo

    with TemporaryDirectory() as name, demo(Path(name)) as server:
        rows = list(attacked(server, Path(name), people=3, seconds=4.0, seed=0))
    assert len(rows) == 4
    for row in rows:
        assert row.held, row.note
