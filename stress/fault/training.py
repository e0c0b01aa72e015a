"""``geq train``, killed at random moments and resumed each time, until it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from geq.training.run import CONFIG
from stress.fault.child import Child, done, geq
from stress.fault.event import die_before
from stress.fault.run import differences, half_written, options
from stress.fault.scale import Kills, Scale
from stress.part import Row

ARMS: dict[str, dict[str, str]] = {
    "equilibrium": {"train_size": "96"},
    "averaged": {"model": "dnn_tiny", "ema": "0.9", "picture": "true", "epochs": "4"},
    "early stop": {"model": "dnn_tiny", "early_stop": "2", "validation": "0.2", "epochs": "4"},
    "optimiser adam": {"model": "opteq_tiny", "optimizer": "adamw", "learning_rate": "0.001"},
}
MOST = 400
"""Children after which a run that does not end is given up."""


def attack(scale: Scale) -> Iterator[Row]:
    arms = list(ARMS)[: scale.pick(1, len(ARMS))]
    for arm in arms:
        yield attack_one(scale, arm, scale.pick(3, 8))


def attack_one(scale: Scale, arm: str, kills: int) -> Row:
    folder = scale.within(arm.replace(" ", "-"))
    given = options(**ARMS[arm], runs=folder)
    undisturbed = done(geq("train", *given, "--name=whole", "--quiet"), folder / "whole.txt")
    run, chance = folder / "killed", scale.random(f"training {arm}")
    killing, others = Kills(kills), 0
    problems = killing.problems
    for number in range(MOST):
        work = next_part(run, given)
        if killing.number < kills and number % 3 == 2:  # between two operations on files
            at = chance.randrange(12)
            ended = Child(geq(*work, before=lambda at=at: die_before(at, run)), folder / "log.txt").wait()  # type: ignore[misc]
        elif killing.number < kills:
            longest = max(0.15, 2.5 * undisturbed.seconds / kills)
            ended = Child(geq(*work), folder / "log.txt").kill_after(chance.uniform(0.02, longest))
        else:
            ended = Child(geq(*work), folder / "log.txt").wait()
        problems += half_written(run)
        if ended.killed:
            killing.number += 1
        elif ended.code == 0:
            break
        else:
            problems += ended.failure
            others += 1
            if others > 3:
                break
    problems += differences(run, folder / "whole")
    if "picture" in ARMS[arm] and not (run / "picture.png").exists():
        problems.append("no picture")
    return killing.row(
        f"training killed and resumed ({arm})",
        "weights, log and checkpoint have the bits of the undisturbed run; every file whole after each kill",
        undisturbed_seconds=round(undisturbed.seconds, 2),
    )


def next_part(run: Path, given: list[str]) -> list[str | Path]:
    if (run / CONFIG).exists():
        return ["train", "--resume", run, "--quiet"]
    return ["train", *given, "--name=killed", "--quiet"]
