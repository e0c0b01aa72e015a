"""Folders that may be read and not written: what must write says so, what only reads works."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from stress.fault import corruption, fetching
from stress.fault.child import Child, done, geq
from stress.fault.mount import read_only
from stress.fault.output import RESULTS
from stress.fault.reproduction import command as reproduce
from stress.fault.run import half_written, options
from stress.fault.scale import Scale
from stress.part import Row


def attack(scale: Scale) -> Iterator[Row]:
    folder = scale.within("all")
    place = folder / "place"
    place.mkdir()
    given = options(model="dnn_tiny", runs=place)
    done(geq("train", *given, "--name=whole", "--quiet"), folder / "log.txt")
    Child(geq("train", *given, "--name=part", "--quiet"), folder / "log.txt").kill_after(0.3)
    if not (place / "part" / "config.yaml").exists():  # killed before it was anything: then this is resumed
        shutil.copytree(place / "whole", place / "part", dirs_exist_ok=True)
        (place / "part" / "log.jsonl").unlink()
    corruption.cifar10(folder, scale.seed)
    (place / "results").mkdir()
    shutil.copy(RESULTS / "geq-figure-3.jsonl", place / "results")
    whole, inside = str(place / "whole"), place / "new"
    archive = fetching.packed({f"{fetching.NAME}/a": b"a"})
    refused = {
        "train": geq("train", *given, "--name=new", "--quiet"),
        "resume": geq("train", "--resume", place / "part", "--quiet"),
        "reproduce": reproduce(place, 1),
        "fetch": fetching.command("http://127.0.0.1:9", archive, place),
        "corrupt": corruption.command(folder, inside),
        "report": geq("report", place / "results", "--output", inside / "page.html", "--quiet"),
        "export": geq("export", whole, "--torch", place / "net.pt2"),
        "pack": geq("weights", "--pack", whole, "--name", "net", "--output", inside, "--images", "5"),
    }
    works = {
        "runs": geq("runs", "--runs", place),
        "evaluate": geq("evaluate", whole, "--json"),
        "report elsewhere": geq("report", place / "results", "--output", folder / "page.html", "--quiet"),
        "resume of a finished run": geq("train", "--resume", whole, "--quiet"),
    }
    if scale.short:
        refused = {name: refused[name] for name in ("train", "resume", "report", "pack")}
        works = {name: works[name] for name in ("runs",)}
    problems: list[str] = []
    before = listing(place)
    with read_only(place):
        for name, work in refused.items():
            ended = Child(work, folder / "log.txt").wait()
            problems += [] if ended.clear else [f"{name}: {ended.code} {ended.text[-500:]}"]
        for name, work in works.items():
            ended = Child(work, folder / "log.txt").wait()
            problems += [] if ended.code == 0 else [f"{name}: {ended.code} {ended.text[-500:]}"]
    changed = [] if listing(place) == before else ["something was written"]
    tried = len(refused) + len(works)
    yield Row(
        "read-only folder",
        tried,
        tried - min(tried, len(problems) + len(changed) + len(half_written(place / "whole"))),
        f"{len(refused)} commands that write say so in a sentence, {len(works)} that read work",
        {"problems": (problems + changed)[:5]},
    )


def listing(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in sorted(folder.rglob("*")) if path.name != ".lock"}
