"""The claims and figures on the pages of results and in the README are those that the records give."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from geq_papers.bench.result_tables import markdown, read_records
from geq_papers.experiment.claim import judge
from geq_papers.experiment.experiment_registry import EXPERIMENTS, PAPERS, STUDY
from geq_papers.experiment.plan import usable
from geq_papers.experiment.record import read_records as read_experiment
from geq_papers.report.evidence import Evidence, gather
from geq_papers.report.page import sections
from geq_papers.report.result_page import MARKED, PAGES, blocks, written
from geq_papers.report.table import ReportTable

ROOT = Path(__file__).resolve().parents[2]


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def part(page: str, heading: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def claim_rows(name: str) -> list[str]:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    return [row for row in rows(text) if cells(row)[0] in ("holds", "fails", "undecided", "not run")]


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    found = gather(str(ROOT / "results"), EXPERIMENTS, usable)
    assert not found.complaints
    return found


@pytest.fixture(scope="module")
def claims(evidence: Evidence) -> tuple[ReportTable, ...]:
    return next(section for section in sections(evidence) if section.anchor == "claims").tables


@pytest.mark.parametrize("name", PAGES)
def test_page_of_results_shows_what_the_records_say(name: str, evidence: Evidence) -> None:
    """``python -m geq_papers.report.result_page results docs`` writes the pages again."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    made = blocks(evidence, name)
    assert sorted(made) == sorted(mark[2] for mark in MARKED.finditer(text)), "every part stands there once"
    assert written(text, made) == text
    assert written(text.replace("| fails |", "| holds |").replace(" fail, ", " hold, "), made) == text


def test_every_claim_stands_on_one_page_with_its_verdict(claims: tuple[ReportTable, ...]) -> None:
    shown = [cells(row) for name in PAGES[1:] for row in claim_rows(name)]
    made = [cells(row) for table in claims for row in rows(table.markdown())[2:]]
    assert Counter((row[1], *row[3:]) for row in shown) == Counter((row[1], *row[3:]) for row in made)
    verdicts = Counter(row[0] for row in made)
    assert Counter(row[0] for row in shown) == {
        verdict.removesuffix(" at this scale"): number for verdict, number in verdicts.items()
    }


@pytest.mark.parametrize("name", PAGES[1:])
def test_counts_of_a_page_are_those_of_its_tables(name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    said = [
        list(map(int, re.findall(r"\d+", line))) for line in text.splitlines() if line.startswith("Of the ")
    ]
    number = Counter(cells(row)[0] for row in claim_rows(name))
    order = ("holds", "fails", "undecided", "not run")
    assert [sum(column) for column in zip(*said, strict=True)] == [
        number.total(),
        *(number[verdict] for verdict in order),
    ]


def test_overview_counts_the_papers_claims_apart_from_our_questions() -> None:
    of_papers, ours = (
        rows(part("docs/results.md", title))[2:] for title in ("Claims of the papers", "Our own questions")
    )
    known = list(EXPERIMENTS.values())
    for word, row in zip(("GEQ", "KerDEQ", "OptEq"), of_papers, strict=False):
        own = [
            claim
            for one in known
            if one.name in PAPERS and one.source.split()[0] == word
            for claim in one.claims
        ]
        assert word in row
        assert int(cells(row)[-1]) == sum(not claim.ours for claim in own)
    asked = sum(claim.ours for one in PAPERS.values() for claim in one.claims)
    assert int(cells(ours[-1])[-1]) == asked + sum(len(one.claims) for one in STUDY.values())


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


def test_the_study_says_what_the_records_say(claims: tuple[ReportTable, ...]) -> None:
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


@pytest.mark.parametrize("place, data", [(0, "cifar10"), (1, "cifar100")])
def test_the_appendix_shows_the_power_that_the_records_give(place: int, data: str) -> None:
    found, _ = read_experiment(ROOT / "results" / "small" / f"study-power-{data}.jsonl")
    page = (ROOT / "docs" / "study-tables.md").read_text(encoding="utf-8")
    for claim in EXPERIMENTS[f"study-power-{data}"].claims:
        judged = judge(claim, found)
        row = [row for row in rows(page) if cells(row)[0] == claim.text][place]
        assert f"| {judged.verdict.partition(' ')[0]} |" in row
        assert cells(row)[-1] == f"{judged.detectable:.2f}"
