"""Disks that are full or read-only: a sentence, and work that goes on when there is room.

The disks are mounts of this process and its children alone, which needs Linux and root. Elsewhere files are
limited in size (RLIMIT_FSIZE), which fails within a write just as well, and folders by their permissions.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from stress.fault import dataset_faults
from stress.fault.child import Child, End, done, geq
from stress.fault.result_faults import RESULTS, reproduce
from stress.fault.trial import Trials, TrialScale, half_written, options, resumed, training, whole_run
from stress.stress_parts import StressRow

MEGABYTE = 1 << 20
NEW_NAMESPACE, LAZY = 0x00020000, 2
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 4096, 16384, 1 << 18


@cache
def own_mounts() -> bool:
    """Leave the mounts of everybody else, and return whether that is possible."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return False
    system = ctypes.CDLL(None, use_errno=True)
    if system.unshare(NEW_NAMESPACE) != 0 or not mount("none", Path("/"), "", RECURSIVE | PRIVATE):
        return False
    with tempfile.TemporaryDirectory() as folder:
        tried = mount("tmpfs", Path(folder), "tmpfs", 0, "size=64k")
        if tried:
            unmount(Path(folder))
    return tried


def mount(source: str, place: Path, kind: str, flags: int, data: str = "") -> bool:
    system = ctypes.CDLL(None, use_errno=True)
    words = [os.fsencode(source), os.fsencode(place), kind.encode()]
    return int(system.mount(*words, ctypes.c_ulong(flags), data.encode())) == 0


def unmount(place: Path) -> None:
    ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(place), LAZY)


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[bool]:
    """Put ``place`` on a disk of ``size`` bytes; yield false where that is not possible."""
    place.mkdir(parents=True, exist_ok=True)
    there = own_mounts() and mount("tmpfs", place, "tmpfs", 0, f"size={size}")
    try:
        yield there
    finally:
        if there:
            unmount(place)


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Forbid writing in ``place``: by a mount, or for others than root by its permissions."""
    mounted = own_mounts()
    folders = [] if mounted else [place, *(path for path in place.rglob("*") if path.is_dir())]
    if mounted:
        mount(str(place), place, "", BIND)
        mount(str(place), place, "", BIND | REMOUNT | READ_ONLY)
    for folder in folders:
        folder.chmod(0o555)
    try:
        yield
    finally:
        if mounted:
            unmount(place)
        for folder in folders:
            folder.chmod(0o755)


def disk(scale: TrialScale) -> Iterator[StressRow]:
    yield full_while_training(scale)
    yield full_of_data(scale)


def full_while_training(scale: TrialScale) -> StressRow:
    """Start with less and less room, then resume with enough."""
    folder = scale.within("training")
    given = options(model="dnn_tiny")
    whole, _ = whole_run(folder, [*given, f"--runs={folder}"])
    needed = sum(path.stat().st_size for path in whole.rglob("*") if path.is_file())
    trials = Trials("disk full while training", "a sentence that says so; resumed with room to the same bits")
    for number in range(scale.pick(2, 10)):
        share = 0.02 + 0.9 * number / scale.pick(2, 10)
        place = folder / f"disk{number}"
        with small_disk(place, 64 * MEGABYTE) as there:
            words, run = [*given, f"--runs={place}", "--name=run"], place / "run"
            ended = squeezed(place, int(share * needed), there, geq("train", *words, "--quiet"))
            found = [] if ended.clear else [f"room for {share:.0%}: {ended.text[-500:]}"]
            again = ["--resume", str(run)] if (run / "config.yaml").exists() else words
            trials.add(found + resumed(run, whole, *again))
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


def full_of_data(scale: TrialScale) -> StressRow:
    """Fetch and corrupt with too little room, then with enough."""
    folder, chance = scale.within("data"), scale.random("disk")
    contents = {
        f"{dataset_faults.NAME}/{n:02}.bin": chance.randbytes(dataset_faults.SIZE)
        for n in range(dataset_faults.FILES)
    }
    archive = dataset_faults.packed(contents)
    dataset_faults.cifar10(folder, scale.seed)
    done(dataset_faults.corrupt(folder, folder / "whole"), folder / "whole.txt")
    whole = dataset_faults.arrays(folder / "whole")
    trials = Trials(
        "disk full while fetching or corrupting",
        "a sentence that says so; with room the same command goes on to every byte",
    )
    with dataset_faults.serving(archive) as address:
        jobs: dict[str, tuple[Callable[[Path], Any], Callable[[Path], list[str]], int]] = {
            "fetch": (
                lambda place: dataset_faults.fetch(address, archive, place),
                lambda place: dataset_faults.wrong_files(place, contents),
                2 * len(archive),
            ),
            "corrupt": (
                lambda place: dataset_faults.corrupt(folder, place),
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


def readonly(scale: TrialScale) -> Iterator[StressRow]:
    """Call commands on folders that cannot be written: those that write say so, those that read work."""
    folder = scale.within("all")
    place = folder / "place"
    (place / "results").mkdir(parents=True)
    given = options(model="dnn_tiny", runs=place)
    whole = place / "whole"
    done(geq("train", *given, "--name=whole", "--quiet"), folder / "log.txt")
    training(folder, *given, "--name=part").kill_after(0.3)
    if not (place / "part" / "config.yaml").exists():  # killed before it was anything: then this is resumed
        shutil.copytree(whole, place / "part", dirs_exist_ok=True)
        (place / "part" / "log.jsonl").unlink()
    dataset_faults.cifar10(folder, scale.seed)
    shutil.copy(RESULTS / "geq-figure-3.jsonl", place / "results")
    inside = place / "new"
    report: list[str | Path] = ["report", place / "results", "--quiet", "--output"]
    refused = {
        "train": geq("train", *given, "--name=new", "--quiet"),
        "resume": geq("train", "--resume", place / "part", "--quiet"),
        "reproduce": reproduce(place, 1),
        "fetch": dataset_faults.fetch(
            "http://127.0.0.1:9", dataset_faults.packed({f"{dataset_faults.NAME}/a": b"a"}), place
        ),
        "corrupt": dataset_faults.corrupt(folder, inside),
        "report": geq(*report, inside / "page.html"),
        "export": geq("export", whole, "--torch", place / "net.pt2"),
        "pack": geq("weights", "--pack", whole, "--name", "net", "--output", inside, "--images", "5"),
    }
    works = {
        "runs": geq("runs", "--runs", place),
        "evaluate": geq("evaluate", whole, "--json"),
        "report elsewhere": geq(*report, folder / "page.html"),
        "resume of a finished run": geq("train", "--resume", whole, "--quiet"),
    }
    if scale.short:
        refused = {name: refused[name] for name in ("train", "resume", "report", "pack")}
        works = {name: works[name] for name in ("runs",)}
    problems: list[str] = []
    before = listing(place)
    with read_only(place):
        for name, work in (refused | works).items():
            ended = Child(work, folder / "log.txt").wait()
            right = ended.clear if name in refused else ended.code == 0
            problems += [] if right else [f"{name}: {ended.code} {ended.text[-500:]}"]
    problems += [] if listing(place) == before else ["something was written"]
    tried = len(refused) + len(works)
    yield StressRow(
        "read-only folder",
        tried,
        tried - min(tried, len(problems) + len(half_written(whole))),
        f"{len(refused)} commands that write say so in a sentence, {len(works)} that read work",
        {"problems": problems[:5]},
    )


def listing(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in sorted(folder.rglob("*")) if path.name != ".lock"}
