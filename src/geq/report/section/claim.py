"""The summary: which claims hold."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from geq.experiment.claim import Judgement, Verdict, judge
from geq.experiment.experiment import Experiment
from geq.report.chart.interval_chart import interval_chart
from geq.report.markup import EMPTY, Markup, element, identifier, join
from geq.report.number import signed
from geq.report.section.part import Section
from geq.report.source import Evidence
from geq.report.table import Cell, Column, Table

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
    "own scale."
)
CSV = (
    "verdict", "claim", "experiment", "source", "scale", "metric", "better arm", "worse arm", "at least",
    "published difference", "our difference", "low", "high", "seeds", "reason", "caveat",
)  # fmt: skip


Found = tuple[Experiment, str, Judgement]


def summary(evidence: Evidence) -> Section:
    """Every claim of every experiment, those that were decided first, and folded those that were not run."""
    found: list[Found] = []
    for group in evidence.groups:
        if group.experiment is not None:
            found += [(group.experiment, group.scale, one) for one in group.judgements()]
    for experiment in evidence.missing:
        found += [(experiment, "", judge(claim, [])) for claim in experiment.claims]
    order = list(MARKS)
    found.sort(key=lambda entry: order.index(entry[2].verdict))
    judged = [entry for entry in found if entry[2].verdict != "not run"]
    others = [entry for entry in found if entry[2].verdict == "not run"]
    body = [
        element(
            "p",
            "What the papers claim, judged by our own runs at the scale that is named.",
            {"class": "lead"},
        ),
        chips(Counter(one.verdict for _, _, one in found)),
    ]
    tables = []
    if judged:
        tables.append(claim_table("Claims", judged, NOTE))
        body.append(tables[-1].html())
    else:
        body.append(element("p", "None of these runs decides a claim."))
    if others:
        tables.append(claim_table("Claims that were not run", others, ""))
        body.append(
            element("details", [element("summary", f"{len(others)} claims without runs"), tables[-1].html()])
        )
    return Section("claims", "Claims", join(body), tuple(tables))


def claim_table(title: str, found: list[Found], note: str) -> Table:
    return Table(
        title,
        COLUMNS,
        tuple(row(*entry) for entry in found),
        note=note,
        stacked=True,
        csv_columns=CSV,
        csv_rows=tuple(csv_row(*entry) for entry in found),
    )


def chips(counts: Counter[Verdict]) -> Markup:
    return element(
        "ul",
        [
            element(
                "li",
                [element("b", str(counts[verdict])), element("span", verdict)],
                {"class": MARKS[verdict][1]},
            )
            for verdict in get_args(Verdict)
        ],
        {"class": "chips"},
    )


def row(experiment: Experiment, scale: str, found: Judgement) -> tuple[Cell, ...]:
    claim, metric = found.claim, experiment.metric(found.claim.metric)
    digits = metric.digits
    sign, kind = MARKS[found.verdict]
    verdict = element("span", f"{sign} {found.verdict}", {"class": f"verdict {kind}"})
    said = [
        part
        for words in (found.reason, found.caveat)
        if words
        for part in (element("br"), element("small", words))
    ]
    asked = [" ", element("small", "(our question)")] if claim.ours else []
    margin = (
        [" ", element("small", f"(by more than {signed(claim.at_least, digits)})")] if claim.at_least else []
    )
    anchor = identifier(f"{experiment.name}-{scale}")
    place = element("a", experiment.source, {"href": f"#{anchor}"}) if scale else experiment.source
    at = [element("br"), element("small", f"{metric.head}{', ' + scale if scale else ''}")]
    interval = "" if found.low is None else f"{signed(found.low, digits)} … {signed(found.high, digits)}"
    ours = signed(found.mean, digits)
    both = join(
        [element("strong", ours), *([" ", element("br"), element("small", interval)] if interval else [])]
    )
    picture = (
        interval_chart(found.mean, found.low, found.high, claim.published_difference, found.verdict)
        if found.mean is not None
        else EMPTY
    )
    return (
        Cell(found.verdict, list(MARKS).index(found.verdict), join([verdict, *said]), "why"),
        Cell(claim.text, claim.text, join([claim.text, *margin, *asked]), "claim"),
        Cell(
            " · ".join(filter(None, (experiment.source, scale))),
            experiment.source,
            join([place, *at]),
            "where",
        ),
        Cell(signed(claim.published_difference, digits), claim.published_difference),
        Cell(f"{ours} ({interval})" if interval else ours, found.mean, both),
        Cell(str(len(found.seeds)), len(found.seeds)),
        Cell("", shown=picture, kind="picture"),
    )


def csv_row(experiment: Experiment, scale: str, found: Judgement) -> tuple[str | float | int | None, ...]:
    claim = found.claim
    return (
        found.verdict, claim.text, experiment.name, experiment.source, scale, claim.metric, claim.better_arm,
        claim.worse_arm, claim.at_least, claim.published_difference, found.mean, found.low, found.high,
        len(found.seeds), found.reason, found.caveat,
    )  # fmt: skip
