"""The demo with a few visitors at once, and every malformed request."""

from __future__ import annotations

import asyncio

import pytest
from stress.demo_visitor import Answers, Visitor, browser, open_page
from stress.load import MemoryTrace, flatness, latency


def test_rows_say_what_failed() -> None:
    answers = Answers([0.1, 0.2, 0.3], refused=2, failed=["RuntimeError: lost"])
    row = latency(answers, people=4, seconds=1.0)
    assert (row.tried, row.survived, row.held) == (6, 5, False)
    assert latency(Answers([0.1]), 1, 1.0).held
    assert not latency(Answers(refused=3), 1, 1.0).held, "refusing everybody is no service"


def test_growing_memory_is_noticed() -> None:
    seconds = [float(second) for second in range(200)]
    assert flatness(MemoryTrace(seconds, [600.0 + (second % 3) for second in seconds])).held
    assert not flatness(MemoryTrace(seconds, [600.0 + second for second in seconds])).held


async def late_and_from_elsewhere(address: str) -> None:
    """A step that was there before the last answer, and an address in the place of a file."""
    async with browser(address) as client:
        visitor = Visitor(client, await open_page(client))
        shown = await visitor.ask(*visitor.page.disturbed(0, 0, "none", 5000))
        assert "data-step=" in str(shown)
        file = {"path": "http://localhost/x.png", "meta": {"_type": "gradio.FileData"}}
        with pytest.raises(RuntimeError, match="must be a file that is uploaded"):
            await visitor.ask(visitor.page.take, [file, visitor.page.model])


@pytest.mark.slow
def test_visitors_and_malformed_requests() -> None:
    pytest.importorskip("gradio")
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from stress.demo_visitor import demo
    from stress.load import attacked

    with TemporaryDirectory() as name, demo(Path(name)) as server:
        asyncio.run(late_and_from_elsewhere(server.address))
        rows = list(attacked(server, Path(name), people=3, seconds=4.0, seed=0))
    assert len(rows) == 4
    for row in rows:
        assert row.held, row.note
