"""A disk that fills: each command ends with a sentence, keeps what it had, and goes on when there is room.

The disk is a small one of this process (tmpfs); where the system allows none, files are limited in size
(RLIMIT_FSIZE), which fails within a write just as well.
"""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stress.fault import corruption, fetching
from stress.fault.child import Child, End, done, geq
from stress.fault.mount import small_disk
from stress.fault.run import options, resumed
from stress.fault.scale import Scale, Trials
from stress.part import Row

MEGABYTE = 1 << 20


def attack(scale: Scale) -> Iterator[Row]:
    yield training(scale)
    yield data(scale)


def training(scale: Scale) -> Row:
    """Started with less and less room, then resumed with enough."""
    folder = scale.within("training")
    given = options(model="dnn_tiny")
    done(geq("train", *given, f"--runs={folder}", "--name=whole", "--quiet"), folder / "whole.txt")
    needed = sum(path.stat().st_size for path in (folder / "whole").rglob("*") if path.is_file())
    trials = Trials("disk full while training", "a sentence that says so; resumed with room to the same bits")
    for number in range(scale.pick(2, 10)):
        share = 0.02 + 0.9 * number / scale.pick(2, 10)
        place = folder / f"disk{number}"
        with small_disk(place, 64 * MEGABYTE) as there:
            name = f"--runs={place}"
            ended = squeezed(
                place, int(share * needed), there, geq("train", *given, name, "--name=run", "--quiet")
            )
            found = [] if ended.clear else [f"room for {share:.0%}: {ended.text[-500:]}"]
            run = place / "run"
            again = ["--resume", str(run)] if (run / "config.yaml").exists() else [*given, name, "--name=run"]
            trials.add(found + resumed(run, folder / "whole", *again))
    return trials.row()


def squeezed(place: Path, room: int, there: bool, work: Callable[[], int]) -> End:
    """Do ``work`` with that much room left on the disk of ``place``, and give the rest back."""
    output = place.with_name(f"{place.name}.txt")
    if not there:

        def limited() -> int:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
            return work()

        return Child(limited, output).wait()
    ballast = place / "ballast"
    free = shutil.disk_usage(place).free
    with ballast.open("wb") as file:
        for _ in range((free - room) // 4096):
            file.write(bytes(4096))
    try:
        return Child(work, output).wait()
    finally:
        ballast.unlink()


def data(scale: Scale) -> Row:
    """Fetching and corrupting with too little room, then with enough."""
    folder, chance = scale.within("data"), scale.random("disk")
    contents: dict[str, bytes] = {
        f"{fetching.NAME}/{n:02}.bin": chance.randbytes(fetching.SIZE) for n in range(fetching.FILES)
    }
    archive = fetching.packed(contents)
    corruption.cifar10(folder, scale.seed)
    done(corruption.command(folder, folder / "whole"), folder / "whole.txt")
    whole = {path.name: path.read_bytes() for path in (folder / "whole").glob("*.npy")}
    trials = Trials(
        "disk full while fetching or corrupting",
        "a sentence that says so; with room the same command goes on to every byte",
    )
    with fetching.serving(archive) as address:
        jobs: dict[str, tuple[Callable[[Path], Any], Callable[[Path], list[str]], int]] = {
            "fetch": (
                lambda place: fetching.command(address, archive, place),
                lambda place: fetching.wrong(place, contents),
                2 * len(archive),
            ),
            "corrupt": (
                lambda place: corruption.command(folder, place),
                lambda place: [n for n in whole if (place / n).read_bytes() != whole[n]],
                sum(map(len, whole.values())),
            ),
        }
        for name, (command, wrong, needed) in jobs.items():
            for share in (0.3, 0.8) if scale.short else (0.0, 0.2, 0.4, 0.6, 0.8):
                place = folder / f"{name}-{share}"
                with small_disk(place, 16 * MEGABYTE) as there:
                    room = int(share * needed) if there else int(share * needed / 4)
                    ended = squeezed(place, room, there, command(place))
                    found = [] if ended.clear else [f"{name}, room for {share:.0%}: {ended.text[-500:]}"]
                    found += Child(command(place), folder / "log.txt").wait().failure
                    trials.add(found or wrong(place))
    return trials.row()
