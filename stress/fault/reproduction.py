"""``geq reproduce``, killed with or without its trainings, and called again until nothing is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from geq_papers.experiment.child import arguments_for
from geq_papers.experiment.child import main as train_one
from geq_papers.experiment.plan import Work
from geq_papers.experiment.record import Record, read_records
from stress.fault.child import Child, done, geq
from stress.fault.run import half_written, timeless
from stress.fault.scale import Kills, Scale
from stress.part import Row

MOST = 100


class Forked:
    """A training of :mod:`geq_papers.experiment.child`, forked instead of started; else as the launcher's
    own."""

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


def forked() -> None:
    """Let ``geq reproduce`` fork what it would start."""
    from geq_papers.command import reproduce

    reproduce.chosen_launcher = lambda *arguments: ForkLauncher()


def attack(scale: Scale) -> Iterator[Row]:
    whole, killed = scale.within("whole"), scale.within("killed")
    seeds = scale.pick(1, 2)
    undisturbed = done(command(whole, seeds), whole / "log.txt")
    chance, kills = scale.random("reproduction"), scale.pick(2, 8)
    killing, expected = Kills(kills), results(whole)
    problems = killing.problems
    for attempt in range(MOST):
        finished = {path: path.stat().st_mtime_ns for path in killed.glob("runs/*/record-*.json")}
        child = Child(command(killed, seeds), killed / "log.txt")
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
        problems += [] if results(killed) == expected else ["the records differ"]
        if killing.number >= kills or problems:
            break
        killed = scale.within(f"killed{attempt}")  # it had ended before it was killed often enough
    yield killing.row(
        "reproduction killed and called again",
        "records whole after each kill, finished runs not made again, in the end equal but for times",
        records=len(expected),
    )


def command(folder: Path, seeds: int) -> Any:
    chosen = ["geq-table-1a", "--scale", "smoke", "--only", "resnet", "--seeds", str(seeds), "--quiet"]
    return geq(
        "reproduce", *chosen, "--results", folder / "results", "--runs", folder / "runs", before=forked
    )


def results(folder: Path) -> list[dict[str, Any]]:
    """What must not depend on how often it was killed."""
    records, _ = read_records(folder / "results")
    return [result(record) for record in sorted(records, key=lambda record: (record.arm, record.seed))]


def result(record: Record) -> dict[str, Any]:
    return {
        "what": (record.experiment, record.arm, record.seed, record.config_hash),
        "epochs": [timeless(line) for line in record.epochs],
        "metrics": {name: value for name, value in record.metrics.items() if "seconds" not in name},
        "solver": record.solver,
    }
