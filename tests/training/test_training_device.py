"""Two processes with gloo: the loss curve of one process with the same global batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from geq.training.fit import train
from geq.training.train_options import TrainOptions

GEQ = Path(sys.executable).with_name("geq")
OPTIONS: dict[str, Any] = {
    "train_size": 128,
    "batch_size": 32,
    "epochs": 2,
    "augment": "none",
    "learning_rate": 0.05,
    "accelerator": "cpu",
    "threads": 1,
}


def by_command(model: str, folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """Train with the installed command, which starts the other processes itself."""
    given = [f"--{name}={value}" for name, value in OPTIONS.items()]
    command = [str(GEQ), "train", f"--runs={folder}", "--name=run", f"--model={model}", "--picture=false"]
    result = subprocess.run(
        [*command, *given, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "tolerance"),
    [
        pytest.param("mon_tiny", 1e-5, marks=pytest.mark.nightly),
        # BatchNorm sees half of the batch in each process, and so does γ within a step.
        ("geq_tiny", 0.05),
    ],
)
def test_two_processes_train_like_one(
    model: str, tolerance: float, tmp_path: Path, small: Callable[..., TrainOptions]
) -> None:
    one = train(small(model=model, **OPTIONS))
    assert one is not None
    two = by_command(model, tmp_path / "two", "--devices=2")
    for single, double in zip([*one.history, one.final], two, strict=True):
        for name in ("train_loss", "test_loss", "solver_steps"):
            if name in single:
                assert double[name] == pytest.approx(single[name], rel=tolerance), name
