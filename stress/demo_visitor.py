"""The demo in its own process, and visitors who send what a browser sends."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

API = "/gradio_api"
PATIENCE = 300.0
"""Seconds until a question without an answer counts as lost."""
NO_CORRUPTION = "none"


@dataclass(frozen=True)
class Demo:
    """A running server."""

    process: subprocess.Popen[str]
    address: str
    folder: Path
    """Folder of its temporary files."""


@contextmanager
def demo(folder: Path) -> Iterator[Demo]:
    """Start ``geq demo`` on a free port; it ends with the block."""
    command = [sys.executable, "-m", "geq.cli", "demo", "geq-digits", "--port", "0", "--runs", str(folder)]
    temporary = folder / "temporary"
    temporary.mkdir()
    around = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)}
    with (folder / "errors.txt").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=around)
        try:
            assert process.stdout is not None
            found = None
            while found is None:
                said = process.stdout.readline()
                if not said:
                    raise RuntimeError("the demo ended before it listened")
                found = re.search(r"http://[^\s/]+", said)
            yield Demo(process, found[0], temporary)
        finally:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=120)


@dataclass(frozen=True)
class Page:
    """Functions of the page behind its controls."""

    refresh: int
    move: int
    take: int
    model: str

    @classmethod
    def read(cls, config: dict[str, Any]) -> Page:
        names = {part["id"]: part["props"].get("elem_id") for part in config["components"]}
        functions = {
            (names.get(component), event): function["id"]
            for function in config["dependencies"]
            for component, event in function["targets"]
        }
        model = next(p["props"]["value"] for p in config["components"] if names[p["id"]] == "model-a")
        events = ("noise", "input"), ("step-a", "change"), ("file", "upload")
        refresh, move, take = (functions[event] for event in events)
        return cls(refresh, move, take, model)

    def disturbed(self, noise: int, blur: int, corruption: str, step: int | None) -> tuple[int, list[Any]]:
        """Return the function and its arguments: for all of the page, or for one step of the solve."""
        above = [None, noise, blur, 0, corruption, 3]
        if step is None:
            return self.refresh, [*above, self.model, "solver", 0, "– none –", "solver", 0]
        return self.move, [*above, self.model, "solver", 0, step]


@dataclass
class Answers:
    """Outcomes of the questions of all visitors."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    failed: list[str] = field(default_factory=list)


class Refused(Exception):
    """The queue is full, and the server said so."""


@dataclass
class Visitor:
    """One person with a browser: a session, and a question at a time."""

    client: httpx.AsyncClient
    page: Page
    session: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    async def ask(self, function: int, data: list[Any]) -> list[Any]:
        """Return the answer of the page's function, or raise an error with the server's words."""
        body = {"data": data, "fn_index": function, "session_hash": self.session, "event_data": None}
        joined = await self.client.post(f"{API}/queue/join", json=body)
        if joined.status_code == 503 and "Queue is full" in joined.text:
            raise Refused(joined.text)
        if joined.status_code != 200:
            raise RuntimeError(f"{joined.status_code}: {joined.text[:200]}")
        event = joined.json()["event_id"]
        where = {"session_hash": self.session}
        async with self.client.stream("GET", f"{API}/queue/data", params=where) as stream:
            async for line in stream.aiter_lines():
                if not line.startswith("data:"):
                    continue
                message = json.loads(line[5:])
                if message.get("event_id") == event and message["msg"] == "process_completed":
                    if not message["success"]:
                        raise RuntimeError(str(message["output"])[:200])
                    answer: list[Any] = message["output"]["data"]
                    return answer
        raise RuntimeError("the stream ended before the answer came")

    async def upload(self, name: str, content: bytes) -> httpx.Response:
        return await self.client.post(f"{API}/upload", files={"files": (name, content)})

    async def visit(self, until: float, seed: int, answers: Answers) -> None:
        """Move controls until the time is over."""
        chance = random.Random(seed)
        while time.monotonic() < until:
            function, data = self.page.disturbed(
                chance.randrange(0, 101, 5),
                chance.choice((0, 0, 50)),
                chance.choice((NO_CORRUPTION, NO_CORRUPTION, "fog", "snow")),
                chance.choice((None, None, 1, 2, 5)),
            )
            begun = time.monotonic()
            try:
                answer = await asyncio.wait_for(self.ask(function, data), PATIENCE)
                if not answer:
                    raise RuntimeError("an empty answer")
                answers.seconds.append(time.monotonic() - begun)
            except Refused:
                answers.refused += 1
                await asyncio.sleep(chance.uniform(0.5, 2.0))
            except Exception as problem:
                answers.failed.append(f"{type(problem).__name__}: {problem}"[:300])
            await asyncio.sleep(chance.uniform(0.0, 0.5))


def browser(address: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(base_url=address, timeout=PATIENCE, limits=limits, trust_env=False)


async def open_page(client: httpx.AsyncClient) -> Page:
    return Page.read((await client.get("/config")).json())
