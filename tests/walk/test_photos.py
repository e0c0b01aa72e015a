"""An engineer with a folder of photos: from there to an ONNX file, with the commands as they are typed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from geq.cli import main

GEQ = [sys.executable, "-m", "geq.cli"]
KINDS = ("circle", "square", "triangle")


def geq(folder: Path, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*GEQ, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, f"geq {' '.join(arguments)}: {done.stderr[-2000:]}"
    return done


def draw_shapes(folder: Path, each: int) -> None:
    """Photos of various sizes: a light shape somewhere on a dark, noisy ground."""
    random = np.random.default_rng(0)
    for kind in KINDS:
        (folder / kind).mkdir(parents=True)
        for number in range(each):
            width, height = random.integers(50, 110, 2).tolist()
            picture = Image.new("RGB", (width, height), tuple(random.integers(0, 110, 3).tolist()))
            side = min(width, height)
            radius = int(side * random.uniform(0.25, 0.4))
            x, y = (np.array([width, height]) // 2 + random.integers(-side // 12, side // 12, 2)).tolist()
            colour = tuple(random.integers(140, 256, 3).tolist())
            draw = ImageDraw.Draw(picture)
            if kind == "circle":
                draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
            elif kind == "square":
                draw.rectangle((x - radius, y - radius, x + radius, y + radius), fill=colour)
            else:
                draw.polygon(
                    [(x, y - radius), (x - radius, y + radius), (x + radius, y + radius)], fill=colour
                )
            noisy = np.asarray(picture).astype(int) + random.integers(-15, 16, (height, width, 3))
            Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(folder / kind / f"{number:03d}.png")


ONNX = """
import json, sys
import numpy, onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession("shapes.onnx")
said = session.get_modelmeta().custom_metadata_map
classes, (channels, height, width) = json.loads(said["classes"]), json.loads(said["shape"])
images = []
for path in sys.argv[1:]:
    picture = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    w, h = picture.size; s = min(w, h); x, y = (w - s) // 2, (h - s) // 2
    resized = eval(said["preprocessing"].split("2: ")[1].split("; then")[0])
    images.append(numpy.asarray(resized, numpy.float32).transpose(2, 0, 1) / 255)
assert [item.shape for item in session.get_inputs()] == [["batch", channels, height, width]]
logits, residual, steps, converged = session.run(None, {"images": numpy.stack(images)})
assert converged.all()
print(json.dumps([classes[number] for number in logits.argmax(1)]))
"""
"""Script of a user with the file and without geq; it resizes as the file describes."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_from_photos_to_onnx(tmp_path: Path) -> None:
    draw_shapes(tmp_path / "photos", 24)
    (tmp_path / "photos" / "circle" / ".DS_Store").write_bytes(b"\0")

    trained = geq(tmp_path, "train", "photos/", "--epochs", "5", "--name", "shapes")
    first = trained.stdout.splitlines()[0]
    assert first.startswith(
        "3 classes: 57 images to train on (80 % of photos), 15 to test on (20 % of photos)"
    )
    assert first.endswith("geq_strong_small takes their middle squares at 32×32, in batches of 8")
    assert "collaps" not in trained.stderr

    evaluated = geq(tmp_path, "evaluate", "shapes")
    assert "shapes on 20 % of photos (test)" in evaluated.stdout
    assert evaluated.stderr == ""
    for kind in KINDS:
        assert re.search(rf"^ *{kind} +5 +\d", evaluated.stdout, re.MULTILINE), evaluated.stdout
    with Image.open(tmp_path / "runs" / "shapes" / "evaluation" / "test.png") as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 300
    measured = json.loads(geq(tmp_path, "evaluate", "shapes", "--json").stdout)
    assert sum(map(sum, measured["confusion"])) == measured["images"] == 15

    found = json.loads(geq(tmp_path, "predict", "shapes", "photos/square", "--json").stdout)
    paths = [row["path"] for row in found["predictions"]]
    assert paths == [f"photos/square/{number:03d}.png" for number in range(24)]
    labels = [row["label"] for row in found["predictions"]]
    shown = geq(tmp_path, "predict", "shapes", "photos/square/000.png").stdout
    assert "Proved. For every image there is exactly one equilibrium" in shown

    exported = geq(tmp_path, "export", "shapes", "--onnx", "shapes.onnx").stdout
    assert "test images of imagefolder" in exported
    done = subprocess.run(
        [sys.executable, "-c", ONNX, *paths], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == labels

    # The photos move: from the folder that holds them it works as before, from elsewhere a message says how.
    (tmp_path / "archive").mkdir()
    shutil.move(tmp_path / "photos", tmp_path / "archive" / "photos")
    refused = geq(tmp_path, "evaluate", "shapes", status=2).stderr
    assert "name the folder that holds it by --data_root" in refused
    again = json.loads(geq(tmp_path, "evaluate", "shapes", "--data_root", "archive", "--json").stdout)
    assert again["confusion"] == measured["confusion"]
    explained = geq(tmp_path / "archive", "explain", "../runs/shapes", "--index", "0", "--json")
    assert json.loads(explained.stdout)[0]["error"] is None


@pytest.mark.slow
def test_what_goes_wrong_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    draw_shapes(tmp_path / "photos", 4)
    for part in ("train", "val"):
        shutil.copytree(tmp_path / "photos", tmp_path / "own" / part)
    shutil.rmtree(tmp_path / "own" / "val" / "circle")
    assert main(["train", "own", "--model", "geq_tiny", "--epochs", "1", "--name", "own"]) == 0
    assert "own/val has no images of circle; the figures are those of the other classes" in caplog.text
    said = capsys.readouterr().out
    assert "12 images to train on (own/train), 8 to test on (own/val); geq_tiny takes" in said
    assert "steps of training are few" in said

    def evaluated(*arguments: str) -> dict[str, Any]:
        caplog.clear()
        assert main(["evaluate", "own", *arguments, "--json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    # His val/ is what the run is tested on, under either name.
    as_val, as_test = evaluated("--split", "val"), evaluated()
    assert as_val["confusion"] == as_test["confusion"]
    assert as_test["class_accuracy"]["circle"] is None
    assert as_val["data"] == as_test["data"] == "own/val"
    assert "not those of the training" not in caplog.text
    shutil.copytree(tmp_path / "own", tmp_path / "archive" / "pets")
    assert evaluated("--data", "archive/pets")["confusion"] == as_test["confusion"]
    (tmp_path / "own" / "val" / "square" / "000.png").unlink()
    assert evaluated()["images"] == 7
    assert (
        "the test images are not those of the training run: the number of images was 8 and is 7"
        in caplog.text
    )

    for arguments, words in (
        (("train", "fotos/"), f"{tmp_path / 'fotos'} does not exist"),
        (("train", "photos/circle"), "holds 4 images and no such folder"),
        (("train", "--data", "photoz"), "unknown dataset or folder of images 'photoz'"),
        (
            ("train", "--model", "geq_small"),
            "geq_small needs images of at least 29×29: got 8×8; take geq_tiny",
        ),
        (("predict", "own", "nosuch.png"), "there is no file nosuch.png"),
        (("data", "fetch", "imagefolder"), "there is nothing to fetch; 'geq train FOLDER' reads it"),
    ):
        assert main(list(arguments)) == 2
        assert words in capsys.readouterr().err, arguments
    assert not list((tmp_path / "runs").glob("geq_s*"))
