"""Commands that write results, killed and called again."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geq_papers.experiment.plan import Work
from geq_papers.experiment.record import read_records
from geq_papers.experiment.training_process import arguments_for
from geq_papers.experiment.training_process import main as train_one
from stress.fault.child import Child, done, dying, geq
from stress.fault.trial import (
    Kills,
    TrialScale,
    half_written,
    options,
    timeless,
    whole_run,
)
from stress.stress_parts import StressRow

RESULTS = Path(__file__).parents[2] / "results" / "small"
MOST = 100


@dataclass(frozen=True)
class OverwriteCase:
    """A command that is killed over its earlier result.

    Args:
        name: Name of the command.
        words: Its arguments.
        place: Folder that it writes.
        operations: Approximate number of its operations on files there.
        kills: Number of kills in the long form.
    """

    name: str
    words: list[str]
    place: Path
    operations: int
    kills: int


def output(scale: TrialScale) -> Iterator[StressRow]:
    """Kill commands at every operation on files: the old result or the new one is whole."""
    folder = scale.within("output")
    results, page, file, packed = (folder / name for name in ("results", "page", "file", "packed"))
    for place in (results, page, file):
        place.mkdir()
    shutil.copy(RESULTS / "geq-figure-3.jsonl", results)
    whole_run(folder, options(runs=folder, model="dnn_tiny"), "run")
    pack = f"--pack {folder / 'run'} --name net --output {packed} --images 10 --force".split()
    for case in (
        OverwriteCase("report", [str(results), "--output", str(page / "report.html"), "--quiet"], page, 3, 5),
        OverwriteCase(
            "export", [str(folder / "run"), "--torch", str(file / "net.pt2"), "--force"], file, 3, 3
        ),
        OverwriteCase("weights", pack, packed / "net", 40, 10),
    ):
        yield overwriting(scale, folder, case, scale.pick(1, case.kills))


def overwriting(scale: TrialScale, folder: Path, case: OverwriteCase, kills: int) -> StressRow:
    log = folder / "log.txt"
    undisturbed = done(geq(case.name, *case.words), log)
    chance, old = scale.random(case.name), mark(case.place)
    killing = Kills(kills)
    problems = killing.problems
    for attempt in range(4 * kills):
        if killing.number >= kills:
            break
        if attempt % 2:
            # Most of the time is computation; the last part writes.
            moment = chance.uniform(0.5, 1.0) * undisturbed.seconds
            ended = Child(geq(case.name, *case.words), log).kill_after(moment)
        else:
            # From the first operations on: these are few, and each is another state of the folder.
            at = attempt // 2 if case.operations < 10 else chance.randrange(case.operations)
            ended = Child(geq(case.name, *case.words, before=dying(at, folder)), log).wait()
        killing.number += ended.killed
        problems += [] if ended.killed else ended.failure
        if not case.place.exists():
            problems.append("the old result is gone")
        elif mark(case.place) != old:
            problems += unreadable(case)
            old = mark(case.place)
    problems += Child(geq(case.name, *case.words), log).wait().failure + unreadable(case)
    problems += [f"left over: {path.name}" for path in case.place.parent.glob(".net.*.tmp")]
    return killing.row(
        f"geq {case.name} killed over an earlier result",
        "the old result whole or the new one, at every operation on files",
    )


def mark(place: Path) -> str:
    """Return a hash of all content there, except for leftovers."""
    digest = hashlib.sha256()
    for path in sorted(place.rglob("*")):
        if path.is_file() and not path.name.endswith(".tmp"):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def unreadable(case: OverwriteCase) -> list[str]:
    """Report what is not whole, by a command that reads it or the marks of its start and end."""
    import torch

    from geq.errors import GeqError
    from geq.model.network import Network
    from geq.weights.card import read_card

    if case.name == "report":
        text = (case.place / "report.html").read_text()
        whole = text.startswith("<!DOCTYPE html>") and text.rstrip().endswith("</html>")
        return [] if whole else ["half a page"]
    if case.name == "export":
        try:
            torch.export.load(case.place / "net.pt2")
        except Exception as problem:  # whatever half a file makes of it
            return [f"not a file of torch.export: {problem}"]
        return []
    try:
        read_card(case.place)
        Network.from_pretrained(case.place / "model")
    except GeqError as problem:
        return [str(problem)]
    return []


class Forked:
    """A training of :mod:`geq_papers.experiment.training_process`, forked; else like a local launcher's."""

    def __init__(self, work: Work, log: Path) -> None:
        reading, self.writing = os.pipe()

        def train() -> int:
            os.close(self.writing)
            os.dup2(reading, 0)  # closes with the parent, which is how it hears of that
            return train_one(arguments_for(work))

        self.child = Child(train, log)
        os.close(reading)
        self.code: int | None = None

    def poll(self) -> int | None:
        if self.code is None:
            pid, status = os.waitpid(self.child.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def stop(self) -> None:
        os.close(self.writing)
        self.code = self.child.wait().code


class ForkLauncher:
    slots, gpus = 1, 0

    def start(self, work: Work, log: Path) -> Forked:
        return Forked(work, log)

    def close(self) -> None:
        """Its processes end by themselves."""


def reproduce(folder: Path, seeds: int) -> Any:
    """Return a ``geq reproduce`` that forks what it would start."""

    def forked() -> None:
        from geq_papers.command import reproduce

        reproduce.chosen_launcher = lambda *arguments: ForkLauncher()

    chosen = ["geq-table-1a", "--scale", "smoke", "--only", "resnet", "--seeds", str(seeds), "--quiet"]
    places: list[str | Path] = ["--results", folder / "results", "--runs", folder / "runs"]
    return geq("reproduce", *chosen, *places, before=forked)


def reproduction(scale: TrialScale) -> Iterator[StressRow]:
    """Kill ``geq reproduce`` with or without its trainings, and call it again until nothing is missing."""
    whole, killed = scale.within("whole"), scale.within("killed")
    seeds = scale.pick(1, 2)
    undisturbed = done(reproduce(whole, seeds), whole / "log.txt")
    chance, kills = scale.random("reproduction"), scale.pick(2, 8)
    killing, expected = Kills(kills), outcomes(whole)
    problems = killing.problems
    for attempt in range(MOST):
        finished = {path: path.stat().st_mtime_ns for path in killed.glob("runs/*/record-*.json")}
        child = Child(reproduce(killed, seeds), killed / "log.txt")
        if killing.number < kills:
            moment = chance.uniform(0.1, max(0.3, 2 * undisturbed.seconds / kills))
            ended = child.kill_after(moment, family=chance.random() < 0.5)
        else:
            ended = child.wait()
        problems += read_records(killed / "results")[1]
        for run in killed.glob("runs/*/config.yaml"):
            problems += half_written(run.parent)
        again = {path: path.stat().st_mtime_ns for path in finished if path.exists()}
        problems += [] if again == finished else ["a finished run was made again"]
        if ended.killed:
            killing.number += 1
            continue
        problems += ended.failure
        problems += [] if outcomes(killed) == expected else ["the records differ"]
        if killing.number >= kills or problems:
            break
        killed = scale.within(f"killed{attempt}")  # it had ended before it was killed often enough
    yield killing.row(
        "reproduction killed and called again",
        "records whole after each kill, finished runs not made again, in the end equal but for times",
        records=len(expected),
    )


def outcomes(folder: Path) -> list[dict[str, Any]]:
    """Return the part of the records that must not depend on how often it was killed."""
    records, _ = read_records(folder / "results")
    return [
        {
            "what": (record.experiment, record.arm, record.seed, record.config_hash),
            "epochs": [timeless(line) for line in record.epochs],
            "metrics": timeless(record.metrics),
            "solver": record.solver,
        }
        for record in sorted(records, key=lambda record: (record.arm, record.seed))
    ]
