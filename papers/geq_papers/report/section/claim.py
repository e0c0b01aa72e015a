"""Verdicts on the claims of the papers, and apart from them on the questions of this project."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import get_args

from geq.number_format import shown, signed
from geq.safe_parsing import identifier
from geq_papers.experiment.claim import Judgement, Verdict, judge
from geq_papers.experiment.experiment import Experiment
from geq_papers.experiment.experiment_registry import STUDY, SUPERSEDED
from geq_papers.report.chart import IntervalStrip
from geq_papers.report.evidence import Evidence
from geq_papers.report.forest import forest_figures
from geq_papers.report.section import Section
from geq_papers.report.table import Column, ReportTable, TableCell

MARKS: dict[str, tuple[str, str]] = {
    "holds": ("✓", "holds"),
    "fails": ("✗", "fails"),
    "undecided at this scale": ("?", "undecided"),
    "not run": ("–", "none"),
}
"""Verdict -> a sign, so that it does not hang on the colour, and a class of the style sheet."""

COLUMNS = (
    Column("Verdict"),
    Column("Claim"),
    Column("Where"),
    Column("Published", numeric=True),
    Column("Ours", numeric=True),
    Column("Seeds", numeric=True),
    Column("Picture", pictured=True),
)
NOTE = (
    "A difference above 0 speaks for the claim, in the unit of its metric. Ours is the mean over paired "
    "seeds, below it Student's 95 % interval; fewer than three pairs give no verdict. In the picture the "
    "line is zero, the dot and bar are ours, the hollow diamond is the published difference; each has its "
    "own scale. Below the seeds is the smallest true difference that so many find with a probability of "
    "80 %, from the spread that was seen."
)
CSV = (
    "verdict", "claim", "experiment", "source", "scale", "metric", "better arm", "worse arm", "at least",
    "published difference", "our difference", "low", "high", "seeds", "detectable", "reason", "caveat",
)  # fmt: skip


Found = tuple[Experiment, str, Judgement]


@dataclass(frozen=True)
class Party:
    """Claims of one origin, those that were decided first.

    Args:
        title, anchor: Of its heading.
        counts: Verdict, its class of the style sheet, number of claims.
        judged: Table of the claims with runs; None without any.
        others: Table of those without runs; None without any.
    """

    title: str
    anchor: str
    counts: tuple[tuple[str, str, int], ...]
    judged: ReportTable | None
    others: ReportTable | None


def judge_all(evidence: Evidence) -> list[Found]:
    """Return every claim of every experiment with its verdict, those that were decided first."""
    found = judged(evidence)
    for experiment in evidence.missing:
        found += [(experiment, "", judge(claim, [])) for claim in experiment.claims]
    order = list(MARKS)
    return sorted(found, key=lambda entry: order.index(entry[2].verdict))


def summary(evidence: Evidence) -> Section:
    """Show the claims of the papers, and apart from them our own questions."""
    found = judge_all(evidence)
    retired = [one for one in found if is_retired(*one, found)]
    found = [one for one in found if one not in retired]
    of_papers = [one for one in found if one[0].name not in STUDY]
    parties = [
        party(name, title, noun, chosen)
        for name, title, noun, chosen in (
            ("claims", "Claims of the papers", "Claims", [one for one in of_papers if not one[2].claim.ours]),
            (
                "own-questions",
                "Our own questions on the papers' tables and figures",
                "Own questions",
                [one for one in of_papers if one[2].claim.ours],
            ),
            (
                "study-questions",
                "Questions of the study",
                "Study questions",
                [one for one in found if one[0].name in STUDY],
            ),
            ("retired", "Retired: decided since by fresh seeds", "Retired claims", retired),
        )
        if chosen or name == "claims"
    ]
    tables = tuple(table for one in parties for table in (one.judged, one.others) if table is not None)
    entries = tuple((one.anchor, one.title) for one in parties)
    figures = forest_figures(current(evidence))
    return Section("claims", "Claims", "claims", {"parties": parties, "figures": figures}, tables, entries)


def judged(evidence: Evidence) -> list[Found]:
    """Judge the claims of the experiments that have records, in the order of these."""
    return [
        (group.experiment, group.scale, one)
        for group in evidence.groups
        if group.experiment is not None
        for one in group.judgements()
    ]


def current(evidence: Evidence) -> list[Found]:
    """Return those that no other experiment has decided since."""
    found = judged(evidence)
    return [one for one in found if not is_retired(*one, found)]


def is_retired(experiment: Experiment, scale: str, answer: Judgement, found: list[Found]) -> bool:
    """Return whether another experiment has decided the same claim since."""
    claim = answer.claim
    later = SUPERSEDED.get((experiment.name, claim.better_arm, claim.worse_arm))
    return any(
        other.name == later
        and where == scale
        and (one.claim.better_arm, one.claim.worse_arm) == (claim.better_arm, claim.worse_arm)
        and one.verdict in ("holds", "fails")
        for other, where, one in found
    )


def party(name: str, title: str, noun: str, found: list[Found]) -> Party:
    judged = [entry for entry in found if entry[2].verdict != "not run"]
    others = [entry for entry in found if entry[2].verdict == "not run"]
    counted = Counter(one.verdict for _, _, one in found)
    return Party(
        title,
        f"judged-{name}",
        tuple((verdict, MARKS[verdict][1], counted[verdict]) for verdict in get_args(Verdict)),
        claim_table(title, judged, NOTE, name) if judged else None,
        claim_table(f"{noun} that were not run", others, "") if others else None,
    )


def claim_table(title: str, found: list[Found], note: str, name: str = "") -> ReportTable:
    return ReportTable(
        title,
        COLUMNS,
        tuple(row(*entry) for entry in found),
        name=name,
        note=note,
        stacked=True,
        csv_columns=CSV,
        csv_rows=tuple(csv_row(*entry) for entry in found),
    )


def row(experiment: Experiment, scale: str, found: Judgement) -> tuple[TableCell, ...]:
    claim, metric = found.claim, experiment.metric(found.claim.metric)
    digits = metric.digits
    sign, kind = MARKS[found.verdict]
    interval = "" if found.low is None else f"{signed(found.low, digits)} … {signed(found.high, digits)}"
    ours = signed(found.mean, digits)
    strip = IntervalStrip.of(found.mean, found.low, found.high, claim.published_difference, found.verdict)
    return (
        TableCell(
            found.verdict,
            list(MARKS).index(found.verdict),
            f"{sign} {found.verdict}",
            below=tuple(filter(None, (found.reason, found.caveat))),
            kind=f"why verdict {kind}",
        ),
        TableCell(
            claim.text,
            claim.text,
            aside=f"(by more than {signed(claim.at_least, digits)})" if claim.at_least else "",
            kind="claim",
        ),
        TableCell(
            " · ".join(filter(None, (experiment.source, scale))),
            experiment.source,
            experiment.source,
            below=(f"{metric.head}{', ' + scale if scale else ''}",),
            link=identifier(f"{experiment.name}-{scale}") if scale else "",
            kind="where",
        ),
        TableCell(signed(claim.published_difference, digits), claim.published_difference),
        TableCell(
            f"{ours} ({interval})" if interval else ours,
            found.mean,
            ours,
            below=(interval,) if interval else (),
            kind="ours",
        ),
        TableCell(
            str(len(found.seeds)),
            len(found.seeds),
            below=() if found.detectable is None else (f"could find {shown(found.detectable, digits)}",),
        ),
        TableCell("", kind="picture", strip=strip if found.mean is not None else None),
    )


def csv_row(experiment: Experiment, scale: str, found: Judgement) -> tuple[str | float | int | None, ...]:
    claim = found.claim
    return (
        found.verdict, claim.text, experiment.name, experiment.source, scale, claim.metric, claim.better_arm,
        claim.worse_arm, claim.at_least, claim.published_difference, found.mean, found.low, found.high,
        len(found.seeds), found.detectable, found.reason, found.caveat,
    )  # fmt: skip
