"""``python -m stress.fuzz.child TARGET RUNS SEED RECORD``: one target under atheris, guided by its branches.

libFuzzer ends the process itself, so the record is written as the runs go on, and says when they are done.
A campaign that was stopped goes on with what is missing, from the first files and with another seed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

KEPT = 2000
"""Executions between two writings of the record."""
LIMITS = ("-rss_limit_mb=3072", "-timeout=20", "-print_final_stats=1", "-verbosity=0", "-close_fd_mask=0")


def main(arguments: list[str]) -> None:
    name, runs, seed, record = arguments[0], int(arguments[1]), int(arguments[2]), Path(arguments[3])
    import atheris

    from stress.fuzz import target as registry

    # What guides the campaign must be instrumented when it is first imported.
    sources = INSTRUMENTED
    with atheris.instrument_imports(include=list(sources)):
        for module in registry.MODULES:
            importlib.import_module(module)
    from stress.fuzz.execution import Tally
    from stress.fuzz.mutation import mutated

    target = registry.targets()[name]
    seeds = target.seeds()
    folder = Path(tempfile.mkdtemp(prefix="geq-corpus-", dir=registry.scratch()))
    for number, content in enumerate(seeds):
        (folder / f"seed-{number}").write_bytes(content)
    before: dict[str, Any] = json.loads(record.read_text()) if record.exists() else {}
    tally = Tally(
        target, before.get("executions", 0), before.get("read", 0), before.get("slowest_seconds", 0.0)
    )
    tally.findings.update(before.get("findings", {}))
    sittings = before.get("sittings", 0) + 1
    began = time.monotonic() - before.get("seconds", 0.0)
    cpu = time.process_time() - before.get("cpu_seconds", 0.0)

    def state(done: bool) -> dict[str, Any]:
        wall = time.monotonic() - began
        busy = time.process_time() - cpu
        return {
            "target": name,
            "done": done,
            **tally.summary(),
            "seconds": round(wall, 1),
            "cpu_seconds": round(busy, 1),
            "executions_per_second": round(tally.executions / max(wall, 1e-9), 1),
            "executions_per_cpu_second": round(tally.executions / max(busy, 1e-9), 1),
            "corpus": len(os.listdir(folder)),
            "seed": seed,
            "sittings": sittings,
        }

    def write(done: bool) -> None:
        part = record.with_suffix(".part")
        part.write_text(json.dumps(state(done), indent=1) + "\n")
        os.replace(part, record)

    def one(data: bytes) -> None:
        tally.execute(data)
        if tally.executions % KEPT == 0 or tally.executions == runs:
            write(tally.executions >= runs)

    def mutate(data: bytes, largest: int, number: int) -> bytes:
        random = Random(number)
        kind = random.random()
        if target.structured and kind < 0.4:
            return random.choice(target.structured)(data, random)[:largest]
        if kind < 0.6:
            return mutated(data, random, seeds, largest)
        result: bytes = atheris.Mutate(data, len(data))
        return result

    options = [
        sys.argv[0],
        f"-runs={runs - tally.executions + len(seeds) + 1}",
        f"-seed={1000 * seed + sittings}",
        f"-max_len={target.largest}",
        f"-artifact_prefix={tempfile.gettempdir()}/geq-fuzz-{name}-",
        *LIMITS,
        str(folder),
    ]
    atheris.Setup(options, one, custom_mutator=mutate, internal_libfuzzer=True)
    atheris.Fuzz()


INSTRUMENTED = (
    *("geq.data.cifar", "geq.data.restricted", "geq.data.idx", "geq.data.archive", "geq.data.stream"),
    *("geq.data.folder", "geq.data.image", "geq.data.segmentation", "geq.data.corruption.cifar_c"),
    "geq.data.hub",
    *("geq.app.picture", "geq.document", "geq.experiment.record", "geq.weights.card", "geq.weights.text"),
    *("geq.training.run", "geq.training.option", "geq.training.ingredient", "geq.training.checkpoint"),
    *("geq.analysis.part", "geq.analysis.result", "geq.export.onnx_file"),
    *("geq.model.pretrained", "geq.model.allowance", "geq.model.config"),
)
"""The readers: their branches say whether a file is worth keeping."""

if __name__ == "__main__":
    main(sys.argv[1:])
