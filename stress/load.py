"""Many people on the demo at once; then requests that no browser sends.

The queue is bounded: visitors beyond it are refused in words, and nobody is forgotten. Afterwards the page
must give the same answer as before.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stress.demo_visitor import Answers, Demo, Visitor, browser, demo, open_page
from stress.malformed_requests import Malformed
from stress.soak import curve, growth, resident
from stress.stress_parts import StressRow

GROWTH = 20.0
"""MB by which the process may grow in the second half, by pools that fill late."""


def run(short: bool, seed: int) -> Iterator[StressRow]:
    people, seconds = (8, 15.0) if short else (64, 300.0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with demo(folder) as server:
            yield from attacked(server, folder, people, seconds, seed)
        left = [path.name for path in server.folder.glob("geq-demo-*")]
        ended = server.process.returncode == 0 and not left
        words = "uploads removed" if not left else f"left {left}"
        yield StressRow("server asked to end", 1, int(ended), f"exit {server.process.returncode}, {words}")


def attacked(server: Demo, folder: Path, people: int, seconds: float, seed: int) -> Iterator[StressRow]:
    """Attack with load, then with malformed requests; ask the same question before, between and after."""
    before = asyncio.run(reference(server))
    answers, memory = asyncio.run(crowd(server, people, seconds, seed))
    yield latency(answers, people, seconds)
    yield flatness(memory)
    between = asyncio.run(reference(server))
    tried, statuses, wrong = asyncio.run(malformed(server, folder))
    errors = sum(isinstance(status, int) and status >= 500 for status in statuses.values())
    yield StressRow(
        "malformed and hostile requests",
        tried,
        tried - len(wrong),
        wrong[0] if wrong else f"nothing served that is not on offer; {errors} answered with 5xx",
        {"answers": statuses, "wrong": wrong},
    )
    after = asyncio.run(reference(server))
    alive = server.process.poll() is None
    same = (before == between) + (before == after)
    yield StressRow(
        "the same answer after it all", 2, same if alive else 0, "" if alive else "the server died"
    )


async def reference(server: Demo) -> list[Any]:
    """Return the undisturbed answer of the page to its first picture."""
    async with browser(server.address) as client:
        visitor = Visitor(client, await open_page(client))
        return await visitor.ask(*visitor.page.disturbed(0, 0, "none", None))


@dataclass
class MemoryTrace:
    """Memory of the server over time."""

    seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    async def watch(self, identifier: int) -> None:
        begun = time.monotonic()
        while True:
            self.seconds.append(time.monotonic() - begun)
            self.megabytes.append(resident(identifier) / 1e6)
            await asyncio.sleep(0.5)


async def crowd(server: Demo, people: int, seconds: float, seed: int) -> tuple[Answers, MemoryTrace]:
    """Let everybody visit at once, each with a browser of their own."""
    answers, memory = Answers(), MemoryTrace()
    async with browser(server.address) as first:
        page = await open_page(first)
    clients = [browser(server.address) for _ in range(people)]
    watching = asyncio.create_task(memory.watch(server.process.pid))
    until = time.monotonic() + seconds
    visits = (Visitor(client, page).visit(until, seed + n, answers) for n, client in enumerate(clients))
    try:
        await asyncio.gather(*visits)
    finally:
        watching.cancel()
        for client in clients:
            await client.aclose()
    return answers, memory


def latency(answers: Answers, people: int, seconds: float) -> StressRow:
    answered, failed = len(answers.seconds), len(answers.failed)
    table = {
        name: round(float(np.percentile(answers.seconds, share)), 3) if answered else None
        for name, share in (("median", 50), ("95 %", 95), ("99 %", 99), ("max", 100))
    }
    words = ", ".join(f"{name} {value} s" for name, value in table.items())
    return StressRow(
        f"{people} visitors for {seconds:.0f} s",
        answered + answers.refused + failed,
        answered + answers.refused if answered else 0,
        f"{answered:,} answered ({words}), {answers.refused:,} refused in words, {failed:,} failed",
        {
            "answered": answered,
            "refused": answers.refused,
            "failed": answers.failed[:20],
            "seconds": table,
            "answers_per_second": round(answered / seconds, 2),
        },
    )


def flatness(memory: MemoryTrace) -> StressRow:
    """Fit the second half as in the soak: in the first the page fills its cache of 64 answers."""
    half = len(memory.seconds) // 2
    late = [second - memory.seconds[half] for second in memory.seconds[half:]]
    slope, margin = growth(late, memory.megabytes[half:])
    hours = late[-1] / 3600
    flat = not (slope - margin) * hours > GROWTH
    most = max(memory.megabytes)
    note = f"{most:.0f} MB at most, slope {slope:+.0f} ± {margin:.0f} MB/h over {hours:.3f} h"
    detail = curve(memory.seconds, memory.megabytes, slope, margin)
    return StressRow("memory of the server under load", 1, int(flat), note, detail)


async def malformed(server: Demo, folder: Path) -> tuple[int, dict[str, int | str], list[str]]:
    secret = folder / "secret.txt"
    secret.write_text(secrets.token_hex(32))
    async with browser(server.address) as client:
        visitor = Visitor(client, await open_page(client))
        attacks = Malformed(visitor, server.address, secret)
        return await attacks.try_all(), attacks.statuses, attacks.wrong
