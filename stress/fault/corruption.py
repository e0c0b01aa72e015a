"""``geq data corrupt``, killed again and again; at last the files have the bytes of an undisturbed call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from stress.fault.child import Child, done, geq
from stress.fault.event import die_before
from stress.fault.scale import Scale
from stress.part import Row

IMAGES, NAMES = 20, ("brightness", "gaussian_noise", "contrast")


def attack(scale: Scale) -> Iterator[Row]:
    folder, chance = scale.within("data"), scale.random("corruption")
    cifar10(folder, scale.seed)
    undisturbed = done(command(folder, folder / "whole"), folder / "whole.txt")
    whole = {path.name: path.read_bytes() for path in (folder / "whole").glob("*.npy")}
    kills, number, problems = scale.pick(2, 25), 0, list[str]()
    place = folder / "killed"
    for attempt in range(20 * kills):
        output = folder / "log.txt"
        if number >= kills:
            ended = Child(command(folder, place), output).wait()
        elif attempt % 2:
            ended = Child(command(folder, place, chance.randrange(24)), output).wait()
        else:
            moment = chance.uniform(0.02, undisturbed.seconds)
            ended = Child(command(folder, place), output).kill_after(moment)
        problems += [
            f"half: {path.name}" for path in place.glob("*.npy") if path.read_bytes() != whole[path.name]
        ]
        if ended.killed:
            number += 1
            continue
        problems += [] if ended.code == 0 else [ended.text[-300:]]
        if number >= kills:
            break
        place = folder / f"killed{attempt}"
    left = {path.name for path in place.iterdir()} - set(whole) - {"geq.json"}
    problems += [f"left over: {name}" for name in left]
    problems += [] if set(whole) <= {path.name for path in place.iterdir()} else ["not all files"]
    yield Row(
        "writing corrupted images, killed",
        number,
        number if not problems else 0,
        "files under their names whole after each kill, in the end the bytes of the undisturbed call",
        {"kills": number, "problems": problems[:5]},
    )


def command(root: Path, output: Path, at: int | None = None) -> Callable[[], int]:
    def before() -> None:
        from geq.data.corruption import cifar_c

        cifar_c.CHUNK = 10
        if at is not None:
            die_before(at, output)

    told = ["--data-root", str(root), "--output", str(output), "--names", *NAMES, "--quiet"]
    return geq("data", "corrupt", *told, before=before)


def cifar10(root: Path, seed: int) -> None:
    """A CIFAR-10 of few images, in the binary layout."""
    chance = np.random.default_rng(seed)
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    for name in (*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"):
        records = chance.integers(0, 256, (IMAGES, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(IMAGES) % 10
        (folder / name).write_bytes(records.tobytes())
