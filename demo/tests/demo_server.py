"""Conversations with a running demo, and what it keeps."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from stress.demo_visitor import API, Visitor, browser, open_page

Conversation = Callable[[Visitor], Awaitable[Any]]


def visit(address: str, conversation: Conversation) -> Any:
    async def visited() -> Any:
        async with browser(address) as client:
            return await conversation(Visitor(client, await open_page(client)))

    return asyncio.run(visited())


def uploads_in(folder: Path) -> list[Path]:
    """Not by a pattern, which fails where a folder goes away meanwhile."""
    return [
        Path(place, name)
        for home in folder.glob("geq-demo-*")
        for place, _, names in os.walk(home / "uploads")
        for name in names
    ]


def refused_words(visitor: Visitor, function: int, data: list[Any], event: Any = None) -> Awaitable[str]:
    """Return the complaint of the page about a question; empty where it answers."""

    async def asked() -> str:
        # As text, because JSON has no infinity, and a browser's fetch has no such scruples.
        body = {"data": data, "fn_index": function, "session_hash": visitor.session, "event_data": event}
        header = {"content-type": "application/json"}
        joined = await visitor.client.post(f"{API}/queue/join", content=json.dumps(body), headers=header)
        if joined.status_code != 200:
            return f"{joined.status_code} {joined.text}"
        where = {"session_hash": visitor.session}
        async with visitor.client.stream("GET", f"{API}/queue/data", params=where) as stream:
            async for line in stream.aiter_lines():
                message = json.loads(line[5:]) if line.startswith("data:") else {}
                if message.get("msg") == "process_completed":
                    return "" if message["success"] else str(message["output"]["error"])
        raise RuntimeError("the stream ended before the answer came")

    return asked()
