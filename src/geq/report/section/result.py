"""The tables and figures of the papers: published and obtained side by side."""

from __future__ import annotations

from itertools import groupby

from geq.experiment.experiment import Metric
from geq.report.figure import gallery
from geq.report.markup import EMPTY, Markup, element, identifier, join
from geq.report.number import MISSING, Real, shown
from geq.report.section.curve import ablation_figures, corruption_figures, training_figures
from geq.report.section.part import Section
from geq.report.source import Evidence, Group
from geq.report.table import Cell, Column, Table

CSV = (
    "arm", "label", "metric", "unit", "published", "published spread", "ours", "standard deviation", "seeds",
)  # fmt: skip

FEW = 4
"""Pictures of the training that are not folded."""


def results(evidence: Evidence) -> Section:
    """A part for each experiment, and in it a table and figures for each scale."""
    parts: list[Markup] = []
    tables: list[Table] = []
    entries: list[tuple[str, str]] = []
    for name, found in groupby(evidence.groups, key=lambda group: group.name):
        groups = list(found)
        parts.append(element("h3", heading(groups[0]), {"id": identifier(f"experiment-{name}")}))
        parts.append(introduction(groups[0]))
        entries.append((identifier(f"experiment-{name}"), heading(groups[0])))
        for group in groups:
            table = result_table(group)
            tables.append(table)
            parts.append(at_scale(group, table))
    missing = [f"{one.source} ({one.name})" for one in evidence.missing]
    if missing:
        parts.append(element("p", f"Without a run so far: {', '.join(missing)}.", {"class": "note"}))
    return Section("results", "Tables and figures", join(parts), tuple(tables), tuple(entries))


def heading(group: Group) -> str:
    if group.experiment is None:
        return f"{group.name} (unknown to this version)"
    return f"{group.experiment.source}: {group.experiment.title}"


def introduction(group: Group) -> Markup:
    opening = group.experiment.opening.strip() if group.experiment else ""
    if not opening:
        return EMPTY
    return element(
        "details", [element("summary", "How it is run, and what the paper reports"), element("pre", opening)]
    )


def at_scale(group: Group, table: Table) -> Markup:
    note = ""
    if group.experiment is not None:
        note = next(
            (scale.note for name, scale in group.experiment.scales.items() if name == group.scale), ""
        )
    if group.scale == "smoke":
        note = f"{note} Smoke runs show that everything works; their numbers mean nothing.".strip()
    seeds = sorted({record.seed for record in group.records})
    said = f"{len(group.records)} runs, seeds {', '.join(map(str, seeds))}. {note}".strip()
    figures = [*ablation_figures(group), *corruption_figures(group)]
    trained = training_figures(group)
    many = len(trained) > FEW
    curves = element("details", [element("summary", f"{len(trained)} training curves"), gallery(trained)])
    return join(
        [
            element("h4", f"Scale {group.scale}", {"id": identifier(group.anchor)}),
            element("p", said, {"class": "meta"}),
            table.html(),
            gallery(figures if many else [*figures, *trained]),
            curves if many else EMPTY,
        ]
    )


def result_table(group: Group) -> Table:
    """A row for each arm; for each metric the published figure, if there is any, and ours."""
    arms, labels = group.arms, group.labels
    columns = [Column("Model"), Column("Parameters", numeric=True)]
    with_published = {
        metric.key: any(group.published(arm, metric.key) for arm in arms) for metric in group.metrics
    }
    for metric in group.metrics:
        if with_published[metric.key]:
            columns.append(Column("published", metric.head, numeric=True))
        columns.append(Column("ours", metric.head, numeric=True))
    columns.append(Column("Seeds", numeric=True))
    rows, lines = [], []
    for arm in arms:
        size = group.sample(arm, "parameters").mean
        control = bool(
            group.experiment and arm in group.experiment.arms and group.experiment.arms[arm].control
        )
        name = join([labels[arm], *([" ", element("small", "(control)")] if control else [])])
        cells = [Cell(labels[arm], labels[arm], name, "words"), Cell(shown(size, 0), size)]
        for metric in group.metrics:
            if with_published[metric.key]:
                cells.append(published_cell(group, arm, metric))
            cells.append(our_cell(group, arm, metric))
            lines.append(csv_row(group, arm, labels[arm], metric))
        runs = len(group.of(arm))
        rows.append((*cells, Cell(str(runs) if runs else MISSING, runs or None)))
    return Table(
        f"{group.experiment.source if group.experiment else group.name}, scale {group.scale}",
        tuple(columns),
        tuple(rows),
        name=group.anchor,
        note=(
            "Ours: mean ± standard deviation over the seeds. Published figures belong to the networks and "
            "data of the papers; at another scale only the order of the rows can be compared."
        ),
        csv_columns=CSV,
        csv_rows=tuple(lines),
    )


def published_cell(group: Group, arm: str, metric: Metric) -> Cell:
    found = group.published(arm, metric.key)
    if found is None:
        return Cell(MISSING)
    return number_cell(found[0], found[1], metric.digits, None)


def our_cell(group: Group, arm: str, metric: Metric) -> Cell:
    sample = group.sample(arm, metric.key)
    return number_cell(sample.mean, sample.spread, metric.digits, "ours") if sample else Cell(MISSING)


def number_cell(value: Real | None, spread: Real | None, digits: int, kind: str | None) -> Cell:
    wide = digits if value is None or not value or abs(value) >= 10**-digits / 2 else None
    text = shown(value, wide)
    if spread is None:
        return Cell(text, value, kind=kind)
    around = f"± {shown(spread, wide)}"
    return Cell(f"{text} {around}", value, join([text, " ", element("small", around)]), kind)


def csv_row(group: Group, arm: str, label: str, metric: Metric) -> tuple[str | float | int | None, ...]:
    value, spread = group.published(arm, metric.key) or (None, None)
    sample = group.sample(arm, metric.key)
    return (
        arm,
        label,
        metric.key,
        metric.unit,
        value,
        spread,
        sample.mean,
        sample.spread,
        len(sample.values),
    )
