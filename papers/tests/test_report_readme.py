"""The claims in the README are those that the records give."""

from __future__ import annotations

from pathlib import Path

from geq_papers.experiment.plan import usable
from geq_papers.experiment.registry import EXPERIMENTS
from geq_papers.report.page import sections
from geq_papers.report.source import gather

ROOT = Path(__file__).resolve().parents[2]


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def test_readme_shows_what_the_records_say() -> None:
    evidence = gather(str(ROOT / "results"), EXPERIMENTS, usable)
    assert not evidence.complaints
    claims = next(part for part in sections(evidence) if part.anchor == "claims")
    judged_tables = [table for table in claims.tables if not table.title.endswith("not run")]
    made = list(dict.fromkeys(row for table in judged_tables for row in rows(table.markdown())))
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = rows(page.partition("## What holds")[2].partition("\n## ")[0])
    assert shown[:2] == made[:2]
    assert set(shown) <= set(made)
    judged = [row for row in made if "GEQ table 1" in row and "| not run |" not in row]
    assert judged
    assert set(judged) <= set(shown), "the first table is shown whole, whatever came out"
    decided = [row for row in made if row.startswith(("| holds |", "| fails |"))]
    assert set(decided) <= set(shown), "of the others, what is decided"
