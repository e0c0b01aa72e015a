"""The example that compares the estimators with scikit-learn's own, on a reduced setting."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sklearn_comparison.py"


@pytest.mark.slow
def test_example_compares_all_models() -> None:
    command = [
        sys.executable,
        str(EXAMPLE),
        "--datasets",
        "iris",
        "diabetes",
        "--folds",
        "2",
        "--epochs",
        "15",
    ]
    found = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True)
    assert found.stderr == ""
    records = [json.loads(line) for line in found.stdout.splitlines()]
    assert [r["model"] for r in records if r["dataset"] == "iris"] == [
        "GEQ",
        "OptEq",
        "RBF-SVM",
        "MLP",
        "gradient boosting",
    ]
    assert [r["model"] for r in records if r["metric"] == "R2"] == [
        "GEQ",
        "RBF-SVM",
        "MLP",
        "gradient boosting",
    ]
    assert all(r["mean"] <= 1 and r["sd"] >= 0 and r["seconds"] > 0 for r in records)
    geq = next(r for r in records if r["model"] == "GEQ")
    assert geq["mean"] > 0.7


def test_the_page_has_a_row_for_each_record_of_the_example() -> None:
    page = (EXAMPLE.parents[1] / "docs" / "sklearn.md").read_text()
    assert "python examples/sklearn_comparison.py" in page
    for dataset, count in (("iris", 5), ("wine", 5), ("breast_cancer", 5), ("digits", 5), ("diabetes", 4)):
        assert page.count(f"| {dataset} |") == count
