"""All tables and figures from end to end, at the scale that only asks whether they run."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from geq.training.setup import open_split
from geq_papers.experiment.experiment_registry import PAPERS
from geq_papers.experiment.plan import grouped, plan, usable
from geq_papers.experiment.record import read_records, record_path
from geq_papers.experiment.run_time import expected_work

GEQ = [sys.executable, "-m", "geq.cli"]

NOT_ON_DIGITS = {"unknown_accuracy", "test_top5"}
"""Metrics that need classes which nobody trained on, or more than ten of them: digits have neither."""

BUDGET = 20 * 60.0
"""CPU-seconds for all of it: ten minutes on two cores."""


def test_it_is_planned_to_be_short() -> None:
    jobs = [job for experiment in PAPERS.values() for job in plan(experiment, "smoke", 1, "runs")]
    works = grouped(jobs)
    assert sum(map(expected_work, works)) < BUDGET
    assert len(works) < len(jobs), "experiments must share what they train alike"


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_everything_runs_and_is_reported(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    where = ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    done = subprocess.run(
        [*GEQ, "reproduce", "all", "--scale", "smoke", "--json", *where],
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(done.stdout)
    assert found["failures"] == {}
    there = {row["name"] for row in found["experiments"]}
    assert there | set(found["left_out"]) == set(PAPERS)
    for name, reason in found["left_out"].items():
        data = {job.options.data for job in plan(PAPERS[name], "smoke", 1, tmp_path)}
        assert any(f"geq data fetch {one}" in reason for one in data), reason
    assert done.returncode == (1 if found["left_out"] else 0), done.stderr
    for name in there:
        path = record_path(tmp_path / "results", "smoke", name)
        assert str(tmp_path) not in path.read_text(), "records name no folders of the machine"
        records, complaints = read_records(path)
        assert complaints == []
        used, outdated = usable(name, "smoke", records)
        assert outdated == []
        assert {record.arm for record in used} == set(PAPERS[name].arms_at("smoke"))
        shown = {metric.key for metric in PAPERS[name].metrics} - NOT_ON_DIGITS
        measured = {key for record in used for key in record.metrics}
        assert shown <= measured, f"{name}: nobody measured {shown - measured}"
    page = tmp_path / "report.html"
    subprocess.run([*GEQ, "report", str(tmp_path / "results"), "--output", str(page), "--quiet"], check=True)
    text = page.read_text()
    assert all(PAPERS[name].title in text for name in there)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < BUDGET, f"{spent / 60:.1f} CPU-minutes"


def test_digits_need_no_download() -> None:
    """All but the street scenes run wherever the package does."""
    needed = {
        name: {job.options.data for job in plan(experiment, "smoke", 1, "runs")}
        for name, experiment in PAPERS.items()
    }
    assert {name for name, data in needed.items() if data != {"digits"}} == {"opteq-table-10"}
    assert len(open_split(plan(PAPERS["geq-table-1a"], "smoke", 1, "r")[0].options, "test")) == 360
