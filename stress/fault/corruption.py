"""``geq data corrupt``, killed again and again; at last the files have the bytes of an undisturbed call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from stress.fault.child import done, geq
from stress.fault.event import die_before
from stress.fault.scale import Kills, Scale
from stress.part import Row

IMAGES, NAMES = 20, ("brightness", "gaussian_noise", "contrast")


def attack(scale: Scale) -> Iterator[Row]:
    folder, chance = scale.within("data"), scale.random("corruption")
    cifar10(folder, scale.seed)
    undisturbed = done(command(folder, folder / "whole"), folder / "whole.txt")
    whole = {path.name: path.read_bytes() for path in (folder / "whole").glob("*.npy")}
    kills = Kills(scale.pick(2, 25))

    def broken(place: Path) -> list[str]:
        files = place.glob("*.npy")
        return [f"half: {path.name}" for path in files if path.read_bytes() != whole[path.name]]

    place = kills.often(
        folder,
        lambda place, at: command(folder, place, at),
        lambda: chance.uniform(0.02, undisturbed.seconds),
        lambda: chance.randrange(24),
        broken,
    )
    there = {path.name for path in place.iterdir()}
    kills.problems += [f"left over: {name}" for name in there - set(whole) - {"geq.json"}]
    kills.problems += [] if set(whole) <= there else ["not all files"]
    yield kills.row(
        "writing corrupted images, killed",
        "files under their names whole after each kill, in the end the bytes of the undisturbed call",
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
