"""``python -m stress.fuzz.child TARGET RUNS SEED RECORD``: one target under atheris, guided by its branches.

libFuzzer ends the process itself, so the record is written as the runs go on, and says when they are done.
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

KEPT = 2000
"""Executions between two writings of the record."""
LIMITS = ("-rss_limit_mb=3072", "-timeout=20", "-print_final_stats=1", "-verbosity=0", "-close_fd_mask=0")
INSTRUMENTED = (
    *("geq.data.cifar", "geq.data.restricted", "geq.data.idx", "geq.data.archive", "geq.data.stream"),
    *("geq.data.folder", "geq.data.image", "geq.data.segmentation", "geq.data.corruption.cifar_c"),
    "geq.data.hub",
    *(
        "geq_demo.picture",
        "geq.document",
        "geq_papers.experiment.record",
        "geq.weights.card",
        "geq.weights.text",
    ),
    *("geq.training.run", "geq.training.option", "geq.training.ingredient", "geq.training.checkpoint"),
    *("geq.analysis.part", "geq.analysis.result", "geq.export.onnx_file"),
    *("geq.model.pretrained", "geq.model.allowance", "geq.model.config"),
)
"""The readers: their branches say whether a file is worth keeping."""


def main(name: str, runs: int, seed: int, record: Path) -> None:
    import atheris

    from stress.fuzz import target as registry

    # What guides the campaign must be instrumented when it is first imported.
    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        for module in registry.MODULES:
            importlib.import_module(module)
    from stress.fuzz.execution import Tally
    from stress.fuzz.mutation import mutated

    target = registry.targets()[name]
    seeds = target.seeds()
    folder = Path(tempfile.mkdtemp(prefix="geq-corpus-", dir=registry.scratch()))
    for number, content in enumerate(seeds):
        (folder / f"seed-{number}").write_bytes(content)
    tally, began = Tally(target), time.monotonic()

    def one(data: bytes) -> None:
        tally.execute(data)
        if tally.executions % KEPT == 0 or tally.executions == runs:
            times = {
                "seconds": round(time.monotonic() - began, 1),
                "cpu_seconds": round(time.process_time(), 1),
            }
            found = {**tally.summary(), **times, "corpus": len(os.listdir(folder)), "seed": seed}
            part = record.with_suffix(".part")
            part.write_text(json.dumps({"done": tally.executions >= runs, **found}))
            os.replace(part, record)

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
        f"-runs={runs + len(seeds) + 1}",
        f"-seed={1000 * seed + 1}",
        f"-max_len={target.largest}",
        f"-artifact_prefix={tempfile.gettempdir()}/geq-fuzz-{name}-",
        *LIMITS,
        str(folder),
    ]
    atheris.Setup(options, one, custom_mutator=mutate, internal_libfuzzer=True)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
