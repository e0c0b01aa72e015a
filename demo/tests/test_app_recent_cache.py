"""Memory of the server for a visitor does not grow with the visitor's questions."""

from __future__ import annotations

import asyncio
import gc

import pytest
from stress.demo_visitor import Visitor, browser, open_page

from geq_demo.server import checked_port, served
from geq_demo.session import Session

pytest.importorskip("gradio")


def components_kept() -> int:
    from gradio.state_holder import SessionState

    gc.collect()
    return max(len(one.blocks_config.blocks) for one in gc.get_objects() if type(one) is SessionState)


async def ask(address: str, *noises: int) -> list[int]:
    """The components that are kept after each question."""
    found = []
    async with browser(address) as client:
        visitor = Visitor(client, await open_page(client))
        for noise in noises:
            assert await visitor.ask(*visitor.page.disturbed(noise, 0, "none", None))
            found.append(components_kept())
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # gradio's own, in its threads
def test_changed_components_replace_the_old_ones(session: Session) -> None:
    port = checked_port("127.0.0.1", 0)
    with served(session, "patches", None, "127.0.0.1", port) as address:
        first, *later = asyncio.run(ask(address, 0, 10, 20, 30))
    assert later == [first] * 3
