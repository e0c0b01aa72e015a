"""``pytest --cases N``, by which `make check` is short: some cases of every test."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]


def collected(*options: str) -> dict[str, list[str]]:
    """Return the cases of each test of one file, in order."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, "tests/test_error.py"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout
    cases = defaultdict(list)
    for line in found.splitlines():
        if "::" in line:
            name, _, case = line.rpartition("::")[2].partition("[")
            cases[name].append(case)
    return cases


def test_the_first_and_the_last_case_remain() -> None:
    whole, two = collected(), collected("--cases", "2")
    assert max(map(len, whole.values())) > 2, "a file without a test of many cases shows nothing"
    assert {name: [cases[0], cases[-1]][: len(cases)] for name, cases in whole.items()} == two
