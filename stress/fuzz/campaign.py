"""All targets: some thousand seeded mutations of each, or a million under atheris, guided by branches.

``python -m stress.fuzz.campaign TARGET RUNS SEED RECORD`` is the process of one target in the long form.
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
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from stress.fuzz.mutation import mutated
from stress.fuzz.target import MODULES, FuzzTally, Target, scratch, targets
from stress.stress_parts import StressRow

LOG = Path(tempfile.gettempdir()) / "geq-fuzz.log"
"""Output of libFuzzer."""
RUNS = 1_000_000
SHORT, SHORT_SECONDS = 3000, 4.0
"""Executions of one target in the short form, and seconds of CPU time at most."""
PATIENCE = 300
"""Seconds until a process that says nothing is taken as hanging."""
KEPT = 2000
"""Executions between two writings of the record."""
LIMITS = ("-rss_limit_mb=3072", "-timeout=20", "-print_final_stats=1", "-verbosity=0", "-close_fd_mask=0")
INSTRUMENTED = """
geq.data.cifar geq.data.restricted_pickle geq.data.mnist geq.data.archive geq.data.archive
geq.data.class_folders geq.data.image_reader geq.data.segmentation geq.data.corruption.cifar_c geq.data.hub
geq_demo.input_image geq.safe_parsing geq_papers.experiment.record geq.weights.card geq.weights.card
geq.training.run_folder geq.training.train_options geq.training.setup geq.training.checkpoint
geq.analysis.part_runner geq.analysis.result geq.export.onnx_file geq.model.pretrained geq.model.size_guard
geq.model.config
"""
"""Readers: their branches say whether a file is worth keeping."""


def run(short: bool, seed: int) -> Iterator[StressRow]:
    chosen = list(targets().values())
    if short:
        for target in chosen:
            yield row(target, brief(target, seed))
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each thread waits for a process
        yield from map(row, chosen, pool.map(lambda target: lengthy(target, seed), chosen))


def row(target: Target, found: dict[str, Any]) -> StressRow:
    """A finding fails a target, and so does a process that died or was not done."""
    failed = sum(finding["times"] for finding in found["findings"].values())
    tried = found["executions"]
    note = f"{found['read']:,} read, {found['refused']:,} refused in words"
    if found["findings"]:
        note = "; ".join(f"{key}: {one['message']}" for key, one in found["findings"].items())
    return StressRow(
        f"{target.name}: {target.summary}", tried, tried - failed, note, found, found.get("seconds")
    )


def finding(message: str) -> dict[str, Any]:
    return {"process": {"message": message, "times": 1, "data": ""}}


def died(how: str) -> dict[str, Any]:
    return {"executions": 1, "read": 0, "refused": 0, "findings": finding(f"the reader's process {how}")}


def brief(target: Target, seed: int) -> dict[str, Any]:
    """Run the short form in a process of its own, which a crash takes with it."""
    mine, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=mutate, args=(target, seed, its))
    process.start()
    its.close()
    try:
        found: dict[str, Any] = mine.recv() if mine.poll(PATIENCE) else died("hangs")
    except EOFError:
        process.join()
        found = died(f"died with {process.exitcode}")
    if process.is_alive() and found["findings"]:
        process.kill()
    process.join()
    return found


def mutate(target: Target, seed: int, answer: Connection) -> None:
    # A whole number for each target that does not depend on the others, nor on Python's hash.
    random = Random(f"{seed} {target.name}")
    seeds = target.seeds()
    tally, began = FuzzTally(target), time.process_time()
    for content in seeds:
        tally.execute(content)
    while tally.executions < SHORT * target.rate and time.process_time() - began < SHORT_SECONDS:
        tally.execute(draw(target, seeds, random))
    answer.send(tally.summary())
    answer.close()
    os._exit(0)  # what the parent has open is not this process's to close


def draw(target: Target, seeds: list[bytes], random: Random) -> bytes:
    """Return one mutated file."""
    content = random.choice(seeds)
    if target.structured and random.random() < 0.5:
        return random.choice(target.structured)(content, random)
    return mutated(content, random, seeds, target.largest)


def lengthy(target: Target, seed: int, runs: int = RUNS) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="geq-fuzz-record-") as folder, LOG.open("a") as log:
        record = Path(folder) / "record.json"
        words = [sys.executable, "-m", "stress.fuzz.campaign", target.name, str(runs), str(seed), str(record)]
        root = Path(__file__).parents[2]
        code = subprocess.run(words, stdout=log, stderr=log, cwd=root, check=False).returncode
        found = json.loads(record.read_text()) if record.exists() else died(f"ended with {code}")
    if not found.pop("done", False):
        found["findings"] |= finding(f"ended with {code}; see {LOG}")
    return dict(found)


def guided(name: str, runs: int, seed: int, record: Path) -> None:
    """Run one target under atheris. libFuzzer ends the process, so the record is written on the way."""
    import atheris

    # What guides the campaign must be instrumented when it is first imported.
    with atheris.instrument_imports(include=INSTRUMENTED.split()):
        for module in MODULES:
            import_module(module)
    target = targets()[name]
    seeds = target.seeds()
    folder = Path(tempfile.mkdtemp(prefix="geq-corpus-", dir=scratch()))
    for number, content in enumerate(seeds):
        (folder / f"seed-{number}").write_bytes(content)
    tally, began = FuzzTally(target), time.monotonic()

    def one(data: bytes) -> None:
        tally.execute(data)
        if tally.executions % KEPT == 0 or tally.executions == runs:
            seconds, cpu = round(time.monotonic() - began, 1), round(time.process_time(), 1)
            found = {**tally.summary(), "seconds": seconds, "cpu_seconds": cpu}
            found |= {"corpus": len(os.listdir(folder)), "seed": seed}
            part = record.with_suffix(".part")
            part.write_text(json.dumps({"done": tally.executions >= runs, **found}))
            os.replace(part, record)

    def custom(data: bytes, largest: int, number: int) -> bytes:
        random = Random(number)
        kind = random.random()
        if target.structured and kind < 0.4:
            return random.choice(target.structured)(data, random)[:largest]
        if kind < 0.6:
            return mutated(data, random, seeds, largest)
        result: bytes = atheris.Mutate(data, len(data))
        return result

    prefix = f"{tempfile.gettempdir()}/geq-fuzz-{name}-"
    options = [f"-runs={runs + len(seeds) + 1}", f"-seed={1000 * seed + 1}", f"-max_len={target.largest}"]
    options += [f"-artifact_prefix={prefix}", *LIMITS, str(folder)]
    atheris.Setup([sys.argv[0], *options], one, custom_mutator=custom, internal_libfuzzer=True)
    atheris.Fuzz()


if __name__ == "__main__":
    guided(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
