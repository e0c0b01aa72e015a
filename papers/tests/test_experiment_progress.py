"""Estimates of the remaining time."""

from __future__ import annotations

import time
from pathlib import Path

from geq_papers.experiment.experiment_registry import EXPERIMENTS
from geq_papers.experiment.plan import grouped, plan
from geq_papers.experiment.progress import RunBars
from geq_papers.experiment.run_time import expected_work


def test_the_time_left_counts_runs_by_their_cost_and_those_under_way_by_their_epochs(tmp_path: Path) -> None:
    jobs = plan(EXPERIMENTS["opteq-table-4"], "small", 1, tmp_path)
    jobs = [job for job in jobs if job.arm in ("plain", "node")]
    cheap, dear = sorted(grouped(jobs), key=expected_work)
    ratio = expected_work(dear) / expected_work(cheap)
    assert ratio > 1.5, "else the number of runs would do"
    bars, begun = RunBars(quiet=True), time.monotonic()
    with bars.watching(jobs):
        bars.started(cheap)
        bars.started(dear)
        time.sleep(0.05)
        bars.ended(cheap, None)
        least = 0.05 * ratio
        assert least <= bars.left() <= ratio * (time.monotonic() - begun)
        bars.progressed(dear, dear.options.epochs - 1)
        assert bars.left() < least
