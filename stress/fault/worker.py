"""A process that makes batches is killed: the training says so, and goes on later as if nothing had been."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from stress.fault.child import Child, done, end, geq
from stress.fault.run import options, resumed
from stress.fault.scale import Scale, Trials
from stress.part import Row


def attack(scale: Scale) -> Iterator[Row]:
    folder = scale.within("run")
    given = options(runs=folder, model="dnn_tiny", workers=2, epochs=4)
    done(geq("train", *given, "--name=whole", "--quiet"), folder / "whole.txt")
    chance = scale.random("worker")
    trials = Trials(
        "worker of the data loader killed",
        "a sentence that names the cause and --resume within 60 s; resumed to the same bits",
    )
    wanted = scale.pick(1, 5)
    for number in range(4 * wanted):
        if trials.tried == wanted:
            break
        name = f"worker{number}"
        child = Child(geq("train", *given, f"--name={name}", "--quiet"), folder / "log.txt")
        if not await_worker(child, folder / name / "last.ckpt"):
            trials.add([f"no worker was seen: {child.wait().text[-300:]}"])
            continue
        time.sleep(chance.uniform(0.0, 0.1))
        for victim in child.members()[:1]:
            end(victim)
        ended = child.wait(60)
        if ended.code == 0:
            continue  # it had no more to do for it
        found = [] if ended.clear and "--resume" in ended.text else [f"not clear: {ended.text[-600:]}"]
        trials.add(found + resumed(folder / name, folder / "whole"))
    yield trials.row()


def await_worker(child: Child, checkpoint: Path) -> bool:
    """Whether it has saved something and has a worker now."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        if checkpoint.exists() and child.members():
            return True
        time.sleep(0.002)
    return False
