"""The data root disappears in the middle of a training, as a network drive does, and comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from stress.fault.child import Child, done, geq
from stress.fault.run import options, resumed
from stress.fault.scale import Scale, Trials
from stress.part import Row


def attack(scale: Scale) -> Iterator[Row]:
    folder = scale.within("run")
    root = folder / "data"
    pictures(root / "pictures", scale.seed)
    trials = Trials(
        "data root disappears while training",
        "a sentence that names the missing file, also when resumed without it; then the same bits",
    )
    for workers in (0,) if scale.short else (0, 2):
        given = [
            *options(runs=folder, model="dnn_tiny", epochs=10, workers=workers, data="imagefolder"),
            *("--train_size=48", "--batch_size=8", f"--data_root={root}", "--augment=none"),
            *("--data_override=folder=pictures", "--data_override=image_size=16"),
        ]
        done(geq("train", *given, f"--name=whole{workers}", "--quiet"), folder / "whole.txt")
        for number in range(scale.pick(1, 3)):
            name = f"run{workers}{number}"
            child = Child(geq("train", *given, f"--name={name}", "--quiet"), folder / "log.txt")
            await_file(folder / name / "last.ckpt")
            time.sleep(0.05 * number)
            root.rename(folder / "away")
            ended = child.wait(120)
            gone = Child(geq("train", "--resume", folder / name, "--quiet"), folder / "gone.txt").wait()
            (folder / "away").rename(root)
            found = [] if ended.clear else [f"{workers} workers: {ended.code} {ended.text[-600:]}"]
            found += [] if gone.clear else [f"resumed without data: {gone.code} {gone.text[-600:]}"]
            trials.add(found + resumed(folder / name, folder / f"whole{workers}"))
    yield trials.row()


def pictures(folder: Path, seed: int) -> None:
    from PIL import Image

    chance = np.random.default_rng(seed)
    for split, number in (("train", 24), ("val", 8)):
        for kind in ("one", "two"):
            (folder / split / kind).mkdir(parents=True)
            for place in range(number):
                pixels = chance.integers(0, 256, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / kind / f"{place}.png")


def await_file(path: Path) -> None:
    limit = time.monotonic() + 60
    while not path.exists() and time.monotonic() < limit:
        time.sleep(0.002)
