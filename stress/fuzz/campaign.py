"""All targets: a few thousand seeded mutations of each, or a million under atheris, one process each.

The long form takes all cores for hours.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from stress.fuzz.execution import Tally
from stress.fuzz.mutation import mutated
from stress.fuzz.target import Target, targets
from stress.part import Row

LOG = Path(tempfile.gettempdir()) / "geq-fuzz.log"
"""What libFuzzer says."""
RUNS = 1_000_000
SHORT, SHORT_SECONDS = 3000, 4.0
"""Executions of one target in the short form, and seconds of CPU time at most."""
PATIENCE = 300
"""Seconds until a process that says nothing is taken as hanging."""


def run(short: bool, seed: int) -> Iterator[Row]:
    chosen = list(targets().values())
    if short:
        for target in chosen:
            yield row(target, brief(target, seed))
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each thread waits for a process
        yield from map(row, chosen, pool.map(lambda target: lengthy(target, seed), chosen))


def row(target: Target, found: dict[str, Any]) -> Row:
    """A finding fails a target, and so does a process that died or was not done."""
    failed = sum(finding["times"] for finding in found["findings"].values())
    tried = found["executions"]
    note = f"{found['read']:,} read, {found['refused']:,} refused in words"
    if found["findings"]:
        note = "; ".join(f"{key}: {one['message']}" for key, one in found["findings"].items())
    return Row(f"{target.name}: {target.summary}", tried, tried - failed, note, found, found.get("seconds"))


def brief(target: Target, seed: int) -> dict[str, Any]:
    """In a process of its own, which a crash takes with it."""
    mine, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_mutate, args=(target, seed, its))
    process.start()
    its.close()
    try:
        found: dict[str, Any] = mine.recv() if mine.poll(PATIENCE) else _died("hangs")
    except EOFError:
        process.join()
        found = _died(f"died with {process.exitcode}")
    if process.is_alive() and found["findings"]:
        process.kill()
    process.join()
    return found


def _died(how: str) -> dict[str, Any]:
    finding = {"message": f"the reader's process {how}", "times": 1, "data": ""}
    return {"executions": 1, "read": 0, "refused": 0, "findings": {"process": finding}}


def _mutate(target: Target, seed: int, answer: Connection) -> None:
    # A whole number for each target that does not depend on the others, nor on Python's hash.
    random = Random(f"{seed} {target.name}")
    seeds = target.seeds()
    tally, began = Tally(target), time.process_time()
    for content in seeds:
        tally.execute(content)
    while tally.executions < SHORT * target.rate and time.process_time() - began < SHORT_SECONDS:
        tally.execute(draw(target, seeds, random))
    answer.send(tally.summary())
    answer.close()
    os._exit(0)  # what the parent has open is not this process's to close


def draw(target: Target, seeds: list[bytes], random: Random) -> bytes:
    """One mutated file."""
    content = random.choice(seeds)
    if target.structured and random.random() < 0.5:
        return random.choice(target.structured)(content, random)
    return mutated(content, random, seeds, target.largest)


def lengthy(target: Target, seed: int, runs: int = RUNS) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="geq-fuzz-record-") as folder, LOG.open("a") as log:
        record = Path(folder) / "record.json"
        command = [sys.executable, "-m", "stress.fuzz.child", target.name, str(runs), str(seed), str(record)]
        root = Path(__file__).parents[2]
        code = subprocess.run(command, stdout=log, stderr=log, cwd=root, check=False).returncode
        found: dict[str, Any] = (
            json.loads(record.read_text()) if record.exists() else _died(f"ended with {code}")
        )
    if not found.pop("done", False):
        found["findings"]["process"] = {"message": f"ended with {code}; see {LOG}", "times": 1, "data": ""}
    return found
