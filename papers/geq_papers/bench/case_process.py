"""One case in a process of its own: ``python -m geq_papers.bench.case_process CASE --threads N [--quick]``.

Writes one JSON record per finding, each as soon as it is known.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import torch

from geq.kernels import compiled_patch
from geq_papers.bench.case import BenchCase, BenchSetting, Skip


def records(case: BenchCase, setting: BenchSetting) -> Iterator[dict[str, Any]]:
    """The findings of a case; one that cannot run says so, and so does one that breaks."""
    base = {
        "case": case.name,
        "threads": setting.threads,
        "quick": setting.quick,
        "torch": torch.__version__,
        "compiled": compiled_patch.load() is not None,
    }
    try:
        for finding in case.run(setting):
            yield {**base, "status": "measured", **asdict(finding), "met": finding.met}
    except Skip as reason:
        yield {**base, "status": "skipped", "reason": str(reason)}
    except Exception as problem:
        yield {**base, "status": "failed", "reason": f"{type(problem).__name__}: {problem}"}


def main(arguments: list[str] | None = None) -> int:
    from geq_papers.bench.case_list import CASES

    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=list(CASES))
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    # Peers and profilers print; only records may reach the reader.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    torch.set_num_threads(options.threads)
    for record in records(CASES[options.case], BenchSetting(options.quick, options.threads)):
        print(json.dumps(record, ensure_ascii=False), file=out, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())


MALLOC = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_TOP_PAD_": str(2**28),
}
"""For glibc: large buffers are kept instead of being mapped again for every operation, on both sides."""


def run_case(name: str, threads: int, quick: bool) -> Iterator[dict[str, Any]]:
    """The records of one case, as they come; a process that dies leaves a record of that."""
    command = [sys.executable, "-m", "geq_papers.bench.case_process", name, "--threads", str(threads)]
    command += ["--quick"] if quick else []
    environment = {**os.environ, **MALLOC, "OMP_NUM_THREADS": str(max(2, threads))}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        yield {
            "case": name,
            "threads": threads,
            "quick": quick,
            "status": "failed",
            "reason": f"its process ended with code {process.returncode}",
        }
