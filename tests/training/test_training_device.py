"""Two processes with gloo: the loss curve of one process with the same global batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

GEQ = Path(sys.executable).with_name("geq")
COMMON = [
    "--train_size=128",
    "--batch_size=32",
    "--epochs=2",
    "--augment=none",
    "--learning_rate=0.05",
    "--picture=false",
    "--accelerator=cpu",
]


def run(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [str(GEQ), "train", "--runs", str(folder), "--name", "run", *COMMON, *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().splitlines()]


@pytest.mark.slow
# A network without BatchNorm: each process would normalise its own half of the batch.
@pytest.mark.parametrize("model", ["mon_tiny"])
def test_two_processes_train_like_one(model: str, tmp_path: Path) -> None:
    one = run(tmp_path / "one", f"--model={model}", "--threads=1")
    two = run(tmp_path / "two", f"--model={model}", "--devices=2")
    for single, double in zip(one, two, strict=True):
        for name in ("train_loss", "train_accuracy", "test_loss", "test_accuracy"):
            if name in single:
                assert double[name] == pytest.approx(single[name], rel=1e-5), name
