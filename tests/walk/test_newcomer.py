"""A newcomer's first hour, in the order of the README: each command as it is typed, in an empty folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
GEQ = [sys.executable, "-m", "geq.cli"]


def geq(folder: Path, *arguments: str) -> str:
    """Return the output of a command, which must succeed."""
    done = subprocess.run([*GEQ, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"geq {' '.join(arguments)}: {done.stderr[-2000:]}"
    return done.stdout


def draw_pets(folder: Path, each: int = 24) -> None:
    """Two kinds of pets: bright on the left, bright on the right."""
    from PIL import Image

    random = np.random.default_rng(0)
    for split in ("train", "val"):
        for side, name in enumerate(("cat", "dog")):
            target = folder / split / name
            target.mkdir(parents=True)
            for number in range(each):
                pixels = random.integers(0, 90, size=(40, 50, 3))
                pixels[:, 25 * side : 25 * side + 25] += 130
                Image.fromarray(pixels.astype(np.uint8)).save(target / f"{number}.png")


@pytest.mark.slow
def test_walk(tmp_path: Path) -> None:
    # `make run`, with fewer epochs
    assert "accuracy" in geq(tmp_path, "train", "--epochs", "2")
    assert json.loads(geq(tmp_path, "runs", "--json"))

    demo = subprocess.Popen(
        [*GEQ, "demo", "--port", "0"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    try:
        assert demo.stdout is not None
        line = demo.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert address, line
        assert "geq_tiny-digits-1" in line, "the run that was just made"
        with urllib.request.urlopen(address[0], timeout=60) as answer:
            assert answer.status == 200
    finally:
        demo.send_signal(signal.SIGTERM)
        demo.communicate(timeout=60)
    assert demo.returncode == 0

    draw_pets(tmp_path / "pets")
    geq(
        tmp_path,
        *("train", "--model", "geq_small", "--data", "imagefolder", "--epochs", "1", "--batch_size", "8"),
        *("--data.folder", f"{tmp_path / 'pets'}", "--data.image_size", "32"),
    )
    run = "geq_small-imagefolder-1"
    photo = tmp_path / "pets" / "val" / "dog" / "0.png"
    found = json.loads(geq(tmp_path, "predict", run, str(photo), "--json"))
    [prediction] = found["predictions"]
    assert prediction["label"] in ("cat", "dog")
    assert prediction["converged"]
    assert len(found["certificates"]) == 3
    assert all("contract" in said for said in found["certificates"].values())

    geq(tmp_path, "export", run, "--onnx", "pets.onnx")
    code = (
        "import numpy, onnxruntime; s = onnxruntime.InferenceSession('pets.onnx');"
        "print(s.run(None, {s.get_inputs()[0].name: numpy.zeros((3, 3, 32, 32), numpy.float32)})[0].shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "(3, 2)", done.stderr


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_fresh_clone(tmp_path: Path) -> None:
    """`make run` with nothing there: the environment is made, the network trained."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a clone to copy")
    clone = tmp_path / "geq"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GEQ_", "PYTHON"))}
    subprocess.run(["make", "run"], cwd=clone, check=True, env=clean)
    assert (clone / "runs" / "geq_tiny-digits-1" / "model" / "model.safetensors").exists()
