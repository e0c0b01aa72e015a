"""Commands that write a result: killed at every operation on files, the old result or the new one is whole.

``geq report``, ``geq export``, ``geq weights --pack``: each is called over an earlier result.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stress.fault.child import Child, done, geq
from stress.fault.event import die_before
from stress.fault.run import options
from stress.fault.scale import Kills, Scale
from stress.part import Row

RESULTS = Path(__file__).parents[2] / "results" / "small"


@dataclass(frozen=True)
class Case:
    """
    Args:
        name: of the command.
        told: its arguments.
        place: what it writes, a file or a folder.
        operations: about as many as it makes on files there.
        kills: of it in the long form.
    """

    name: str
    told: list[str]
    place: Path
    operations: int
    kills: int


def attack(scale: Scale) -> Iterator[Row]:
    folder = scale.within("output")
    results = folder / "results"
    results.mkdir()
    shutil.copy(RESULTS / "geq-figure-3.jsonl", results)
    page, file, packed = folder / "page", folder / "file", folder / "packed"
    for place in (page, file):
        place.mkdir()
    done(geq("train", *options(runs=folder, model="dnn_tiny"), "--name=run", "--quiet"), folder / "log.txt")
    pack = f"--pack {folder / 'run'} --name net --output {packed} --images 10 --force".split()
    cases = [
        Case("report", [str(results), "--output", str(page / "report.html"), "--quiet"], page, 3, 5),
        Case("export", [str(folder / "run"), "--torch", str(file / "net.pt2"), "--force"], file, 3, 3),
        Case("weights", pack, packed / "net", 40, 10),
    ]
    for case in cases:
        yield attack_one(scale, folder, case, scale.pick(1, case.kills))


def attack_one(scale: Scale, folder: Path, case: Case, kills: int) -> Row:
    output = folder / "log.txt"
    undisturbed = done(geq(case.name, *case.told), output)
    chance, old = scale.random(case.name), mark(case.place)
    killing = Kills(kills)
    problems = killing.problems
    for attempt in range(4 * kills):
        if killing.number >= kills:
            break
        if attempt % 2:
            # Most of the time is computation; the last part writes.
            moment = chance.uniform(0.5, 1.0) * undisturbed.seconds
            ended = Child(geq(case.name, *case.told), output).kill_after(moment)
        else:
            # From the first operations on: these are few, and each is another state of the folder.
            at = attempt // 2 if case.operations < 10 else chance.randrange(case.operations)
            ended = Child(geq(case.name, *case.told, before=dying(at, folder)), output).wait()
        killing.number += ended.killed
        problems += [] if ended.killed else ended.failure
        if not case.place.exists():
            problems.append("the old result is gone")
        elif mark(case.place) != old:
            # What is there must be whole: a command that reads it, or the marks of its start and end.
            problems += unreadable(case)
            old = mark(case.place)
    ended = Child(geq(case.name, *case.told), output).wait()
    problems += ended.failure + unreadable(case)
    problems += [f"left over: {path.name}" for path in case.place.parent.glob(".net.*.tmp")]
    return killing.row(
        f"geq {case.name} killed over an earlier result",
        "the old result whole or the new one, at every operation on files",
    )


def dying(at: int, folder: Path) -> Callable[[], None]:
    return lambda: die_before(at, folder)


def mark(place: Path) -> str:
    """Of all content there, but for what was left over."""
    digest = hashlib.sha256()
    for path in sorted(place.rglob("*")):
        if path.is_file() and not path.name.endswith(".tmp"):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def unreadable(case: Case) -> list[str]:
    if case.name == "report":
        text = (case.place / "report.html").read_text()
        whole = text.startswith("<!DOCTYPE html>") and text.rstrip().endswith("</html>")
        return [] if whole else ["half a page"]
    if case.name == "export":
        import torch

        try:
            torch.export.load(case.place / "net.pt2")
        except Exception as problem:  # whatever half a file makes of it
            return [f"not a file of torch.export: {problem}"]
        return []
    from geq.errors import GeqError
    from geq.model.network import Network
    from geq.weights.card import read_card

    try:
        read_card(case.place)
        Network.from_pretrained(case.place / "model")
    except GeqError as problem:
        return [str(problem)]
    return []
