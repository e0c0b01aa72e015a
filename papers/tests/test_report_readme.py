"""The claims and figures in docs/results.md and in the README are those that the records give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from geq_papers.bench.terminal_output import markdown, read_records
from geq_papers.experiment.claim import judge
from geq_papers.experiment.experiment_registry import EXPERIMENTS
from geq_papers.experiment.plan import usable
from geq_papers.experiment.record import read_records as read_experiment
from geq_papers.report.evidence import gather
from geq_papers.report.page import sections
from geq_papers.report.table import ReportTable

ROOT = Path(__file__).resolve().parents[2]


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def part(page: str, heading: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


@pytest.fixture(scope="module")
def claims() -> tuple[ReportTable, ...]:
    evidence = gather(str(ROOT / "results"), EXPERIMENTS, usable)
    assert not evidence.complaints
    return next(section for section in sections(evidence) if section.anchor == "claims").tables


def test_results_show_what_the_records_say(claims: tuple[ReportTable, ...]) -> None:
    text = part("docs/results.md", "Claims and verdicts")
    shown = rows(text)
    made = [row for table in claims for row in rows(table.markdown())]
    assert shown == made, "every claim is shown, whatever came out, and nothing else"
    titles = [line.removeprefix("### ") for line in text.splitlines() if line.startswith("### ")]
    assert titles == [table.title for table in claims]
    assert any("GEQ table 1" in row and "| not run |" not in row for row in shown)
    assert any(row.startswith(("| holds |", "| fails |")) for row in shown)


def test_readme_shows_what_the_records_say(claims: tuple[ReportTable, ...]) -> None:
    """Every row of its table repeats, word for word, cells of one row of the claims or of the benchmarks."""
    files = sorted((ROOT / "benchmarks" / "record").glob("*.jsonl"))
    measured = markdown((record for path in files for record in read_records(path)), brief=True)
    made = [row for table in claims for row in rows(table.markdown())] + rows(measured)
    known = [set(cells(row)) for row in made]
    shown = rows(part("README.md", "Results"))[2:]
    assert 1 <= len(shown) <= 8
    for row in shown:
        assert len(set(cells(row))) == 4
        assert any(set(cells(row)) <= record for record in known), f"no record has {row}"
    verdicts = {verdict for verdict in ("holds", "fails") if any(verdict in cells(row) for row in shown)}
    assert verdicts == {"holds", "fails"}, "what failed is shown beside what held"


def test_the_study_says_what_the_records_say(claims: tuple[Table, ...]) -> None:
    """Every difference with an interval is that of a claim, and each paragraph with one links its records."""
    text = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 1500
    known = {
        cell.replace("\\", "") for table in claims for row in rows(table.markdown()) for cell in cells(row)
    }
    said = re.findall(r"[+−]\d+\.\d+\s\([+−][\d.]+ … [+−][\d.]+\)", text)
    assert len(said) > 15
    unknown = [one for one in said if " ".join(one.split()) not in known]
    assert not unknown
    results = text.partition("## Results\n")[2].partition("\n## ")[0]
    for paragraph in results.strip().split("\n\n"):
        links = re.findall(r"\]\((\.\./results/small/[\w-]+\.jsonl)\)", paragraph)
        assert links or not re.search(r" … ", paragraph), paragraph
        assert all((ROOT / "docs" / link).exists() for link in links)


def test_the_appendix_shows_the_power_that_the_records_give() -> None:
    found, _ = read_experiment(ROOT / "results" / "small" / "study-power-cifar10.jsonl")
    page = (ROOT / "docs" / "study-tables.md").read_text(encoding="utf-8")
    for claim in EXPERIMENTS["study-power-cifar10"].claims:
        judged = judge(claim, found)
        (row,) = (row for row in rows(page) if cells(row)[0] == claim.text)
        assert f"| {judged.verdict.partition(' ')[0]} |" in row
        assert cells(row)[-1] == f"{judged.detectable:.2f}"
