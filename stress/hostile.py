"""Files that want to execute, escape or explode: refused in words, with nothing run or written elsewhere."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from stress.attack import HostileCase, bomb, code_execution, examine, lying_files, misleading_paths
from stress.stress_parts import StressRow

CASES: dict[str, tuple[HostileCase, ...]] = {
    "pickles and other programs": code_execution.CASES,
    "configurations and safetensors": lying_files.CASES,
    "names and links that lead elsewhere": misleading_paths.CASES,
    "bombs and false sizes": bomb.CASES,
}
"""Cases by their aim; the tests run the same ones."""


def run(short: bool, seed: int) -> Iterator[StressRow]:
    """Run all cases in either form: they are not random."""
    for what, cases in CASES.items():
        problems = {}
        for case in cases:
            with tempfile.TemporaryDirectory(prefix="geq-hostile-") as folder:
                problem = examine(case, Path(folder))
            if problem is not None:
                problems[case.name] = problem
        note = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        detail = {"cases": [case.name for case in cases], "problems": problems}
        yield StressRow(what, len(cases), len(cases) - len(problems), note, detail)
