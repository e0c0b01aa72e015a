"""Counts and tables of claims in docs/results: a page for each paper, and one for our own questions.

``python -m geq_papers.report.result_page RESULTS DOCS`` writes them from the records below RESULTS into the
pages below DOCS, between the comments that mark them. The rest of a page is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from geq_papers.experiment.experiment_registry import EXPERIMENTS, STUDY
from geq_papers.report.evidence import Evidence
from geq_papers.report.section.claim import COLUMNS, MARKS, NOTE, Found, judge_all
from geq_papers.report.section.claim import row as claim_row
from geq_papers.report.section.result import heading
from geq_papers.report.table import Column, ReportTable, TableCell

PAPERS = {"geq": "GEQ", "kerdeq": "KerDEQ", "opteq": "OptEq"}
"""Page -> first word of the source of its experiments."""

PAGES = ("results.md", *(f"results/{name}.md" for name in (*PAPERS, "study")))
MARKED = re.compile(r"(<!-- records: ([\w-]+) -->\n).*?(<!-- end of records -->)", re.DOTALL)
SHORT = {"undecided at this scale": "undecided"}


def paper_of(found: Found) -> str:
    """Return the page on which a claim stands: that of its paper, or the study."""
    experiment = found[0]
    if experiment.name in STUDY:
        return "study"
    first = experiment.source.split()[0]
    return next(page for page, word in PAPERS.items() if word == first)


def count_table(head: str, rows: Mapping[str, list[Found]]) -> ReportTable:
    """Return the number of claims of each verdict, a row for each paper that has any."""
    columns = (Column(head), *(Column(SHORT.get(verdict, verdict), numeric=True) for verdict in MARKS))
    columns = (*columns, Column("all", numeric=True))
    counted = {label: Counter[str](one[2].verdict for one in found) for label, found in rows.items() if found}
    counted["together"] = sum(counted.values(), Counter[str]())
    return ReportTable(
        "",
        columns,
        tuple(
            (
                TableCell(label),
                *(TableCell(str(one[verdict])) for verdict in MARKS),
                TableCell(str(one.total())),
            )
            for label, one in counted.items()
        ),
    )


def sentence(found: list[Found], noun: str) -> str:
    """Count the claims in words.

    >>> sentence([], "claims of the paper")
    'Of the 0 claims of the paper 0 hold, 0 fail, 0 are undecided at this scale and 0 were not run.'
    """
    number = Counter[str](one[2].verdict for one in found)
    holds, fails, undecided, missing = (number[verdict] for verdict in MARKS)
    return (
        f"Of the {len(found)} {noun} {holds} hold, {fails} fail, "
        f"{undecided} are undecided at this scale and {missing} were not run."
    )


def claim_table(title: str, found: list[Found], paper: str) -> ReportTable:
    """Return claims with their verdicts; the paper's name is left out where the page bears it."""
    rows = []
    for one in found:
        verdict, claim, where, *rest = claim_row(*one)
        place = where.text.removeprefix(f"{PAPERS.get(paper, '')} ")
        rows.append(
            (replace(verdict, text=SHORT.get(verdict.text, verdict.text)), claim, TableCell(place), *rest)
        )
    return ReportTable(title, COLUMNS, tuple(rows))


def blocks(evidence: Evidence, page: str) -> dict[str, str]:
    """Return what the records say on a page: mark -> Markdown."""
    found = judge_all(evidence)
    if page == "results.md":
        own = {name: [one for one in found if paper_of(one) == name] for name in (*PAPERS, "study")}
        claims = {
            f"[{word}](results/{name}.md)": [one for one in own[name] if not one[2].claim.ours]
            for name, word in PAPERS.items()
        }
        questions = {
            f"on [{word}](results/{name}.md)": [one for one in own[name] if one[2].claim.ours]
            for name, word in PAPERS.items()
        } | {"of [the study](results/study.md)": own["study"]}
        return {
            "claims": _plain(count_table("Paper", claims)),
            "questions": _plain(count_table("Questions", questions)),
        }
    paper = Path(page).stem
    here = [one for one in found if paper_of(one) == paper]
    if paper == "study":
        grouped = [
            claim_table(heading(name, EXPERIMENTS[name]), list(claims), paper)
            for name, claims in groupby(
                sorted(here, key=lambda one: list(STUDY).index(one[0].name)), key=lambda one: one[0].name
            )
        ]
        return {
            "count": sentence(here, "questions of the study"),
            "claims": f"{_note()}\n\n" + "\n".join(table.markdown() for table in grouped),
        }
    of_paper = [one for one in here if not one[2].claim.ours]
    ours = [one for one in here if one[2].claim.ours]
    counts = [sentence(of_paper, "claims of the paper")]
    parts = [_note(), _plain(claim_table("", of_paper, paper))]
    if ours:
        counts.append(sentence(ours, "questions of our own on it"))
        parts += ["## Our own questions", _plain(claim_table("", ours, paper))]
    return {"count": "\n\n".join(counts), "claims": "\n\n".join(parts)}


def written(text: str, made: Mapping[str, str]) -> str:
    """Return a page with every marked part as the records give it."""
    return MARKED.sub(lambda part: f"{part[1]}{made[part[2]].strip()}\n{part[3]}", text)


def _plain(table: ReportTable) -> str:
    """Return the table without its heading; links of its cells stay links."""
    text = table.markdown().partition("\n\n")[2]
    return re.sub(r"\\\[([^\]]*)\\\]\(", r"[\1](", text).strip()


def _note() -> str:
    return NOTE.partition(" In the picture")[0].replace(", below it Student's", " with Student's")


def main(results: str, docs: str) -> None:
    from geq_papers.experiment.plan import usable
    from geq_papers.report.evidence import gather

    evidence = gather(results, EXPERIMENTS, usable)
    for page in PAGES:
        path = Path(docs) / page
        path.write_text(written(path.read_text("utf-8"), blocks(evidence, page)), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
