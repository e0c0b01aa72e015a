"""``python -m geq_papers.experiment.training_process RUNS SCALE SEED EXPERIMENT/ARM…``: one
training in a process of its own.

The parent holds the other end of the standard input. When that closes, because the parent ends or is killed,
the run is asked to stop: it saves a checkpoint first, so nothing is lost.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import cast

from geq.errors import GeqError
from geq.training.interrupt import TrainingInterrupted
from geq_papers.experiment.experiment import ScaleName
from geq_papers.experiment.experiment_registry import find_experiment
from geq_papers.experiment.plan import Work, plan_job
from geq_papers.experiment.train_and_record import finish

INTERRUPTED = 130


def arguments_for(work: Work) -> list[str]:
    """Return the arguments of this module for ``work``."""
    job = work.jobs[0]
    return [
        job.options.runs,
        job.scale,
        str(job.seed),
        *(f"{other.experiment}/{other.arm}" for other in work.jobs),
    ]


def work_from(arguments: list[str]) -> Work:
    runs, scale, seed, *names = arguments
    pairs = [name.split("/", 1) for name in names]
    jobs = [
        plan_job(find_experiment(experiment), cast(ScaleName, scale), arm, int(seed), runs)
        for experiment, arm in pairs
    ]
    return Work(tuple(jobs))


def stop_with_parent() -> None:
    """Ask this process to stop when the standard input ends."""

    def wait() -> None:
        while os.read(0, 1):  # not sys.stdin: its lock would be in the way at the end of the interpreter
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.WARNING, format="geq: %(message)s", stream=sys.stderr)
    stop_with_parent()
    try:
        finish(work_from(arguments))
    except TrainingInterrupted as stop:
        print(stop, file=sys.stderr)
        return INTERRUPTED
    except GeqError as error:
        print(f"geq: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
