"""Tables and figures of the papers, published and obtained side by side; experiments of the study."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from geq.number_format import MISSING, Real, around, shown
from geq.safe_parsing import identifier
from geq_papers.experiment.experiment import Experiment, Metric
from geq_papers.experiment.experiment_registry import STUDY
from geq_papers.report.evidence import Evidence, Group
from geq_papers.report.section import Section
from geq_papers.report.section.curve import ablation_figures, corruption_figures, training_figures
from geq_papers.report.svg_drawing import Figure
from geq_papers.report.table import Column, ReportTable, TableCell

CSV = (
    "arm", "label", "metric", "unit", "published", "published spread", "ours", "standard deviation", "seeds",
)  # fmt: skip

FEW = 4
"""Pictures of the training that are not folded."""

WIDEST = 10
"""Columns of numbers that fit beside each other."""


@dataclass(frozen=True)
class AtScale:
    """The table and figures of an experiment at one scale.

    Args:
        words: How many runs, and what the scale means.
        figures: In front of the table's end; ``curves`` are folded.
    """

    scale: str
    anchor: str
    words: str
    table: ReportTable
    figures: tuple[Figure, ...]
    curves: tuple[Figure, ...]


@dataclass(frozen=True)
class Results:
    """An experiment at all scales that were run."""

    heading: str
    anchor: str
    opening: str
    scales: tuple[AtScale, ...]


def results(evidence: Evidence) -> list[Section]:
    """Return a section on the papers' tables and figures, and one on the study."""
    return [
        section("results", "Tables and figures of the papers", evidence, of_study=False),
        *(
            [section("study", "Experiments of the study", evidence, of_study=True)]
            if any(group.name in STUDY for group in evidence.groups)
            else []
        ),
    ]


def section(anchor: str, title: str, evidence: Evidence, of_study: bool) -> Section:
    chosen = [group for group in evidence.groups if (group.name in STUDY) == of_study]
    missing = [one for one in evidence.missing if (one.name in STUDY) == of_study]
    found = [of_experiment(groups) for _, groups in groupby(chosen, key=lambda group: group.name)]
    content = {"experiments": found, "missing": [f"{one.source} ({one.name})" for one in missing]}
    tables = tuple(scale.table for one in found for scale in one.scales)
    return Section(
        anchor, title, "results", content, tables, tuple((one.anchor, one.heading) for one in found)
    )


def of_experiment(groups: Iterable[Group]) -> Results:
    scales = list(groups)
    first = scales[0]
    return Results(
        heading(first.name, first.experiment),
        identifier(f"experiment-{first.name}"),
        first.experiment.opening.strip() if first.experiment else "",
        tuple(at_scale(group) for group in scales),
    )


def heading(name: str, experiment: Experiment | None) -> str:
    return f"{experiment.source}: {experiment.title}" if experiment else f"{name} (unknown to this version)"


def at_scale(group: Group) -> AtScale:
    note = ""
    if group.experiment is not None:
        note = next(
            (scale.note for name, scale in group.experiment.scales.items() if name == group.scale), ""
        )
    if group.scale == "smoke":
        note = f"{note} Smoke runs show that everything works; their numbers mean nothing.".strip()
    seeds = sorted({record.seed for record in group.records})
    figures = [*ablation_figures(group), *corruption_figures(group)]
    trained = training_figures(group)
    many = len(trained) > FEW
    return AtScale(
        group.scale,
        identifier(group.anchor),
        f"{len(group.records)} runs, seeds {', '.join(map(str, seeds))}. {note}".strip(),
        result_table(group),
        tuple(figures if many else [*figures, *trained]),
        tuple(trained if many else []),
    )


def result_table(group: Group) -> ReportTable:
    """A row for each arm; for each metric the published figure, if there is any, and ours.

    With many metrics and few arms it is turned round, so that it stays as narrow as the page.
    """
    arms = [heading_of(group, arm) for arm in group.arms]
    columns, cells = [], []
    for metric in group.metrics:
        if group.scale != "smoke" and any(group.published(arm, metric.key) for arm in group.arms):
            columns.append(Column("published", metric.head, numeric=True))
            cells.append([published_cell(group, arm, metric) for arm in group.arms])
        columns.append(Column("ours", metric.head, numeric=True))
        cells.append([our_cell(group, arm, metric) for arm in group.arms])
    sizes = [group.sample(arm, "parameters").mean for arm in group.arms]
    seeds = [len(group.of(arm)) for arm in group.arms]
    columns = [Column("Parameters", numeric=True), *columns, Column("Seeds", numeric=True)]
    cells = [
        [TableCell(shown(size, 0), size) for size in sizes],
        *cells,
        [TableCell(str(number) if number else MISSING, number or None) for number in seeds],
    ]
    if len(columns) > WIDEST >= len(arms):
        rows = [
            (TableCell(column.full_label.removesuffix(": ours"), kind="words"), *row)
            for column, row in zip(columns, cells, strict=True)
        ]
        columns = [Column("Metric"), *(Column(arm.text, numeric=True) for arm in arms)]
    else:
        rows = [(arm, *row) for arm, *row in zip(arms, *cells, strict=True)]
        columns = [Column("Model"), *columns]
    return ReportTable(
        f"{group.experiment.source if group.experiment else group.name}, scale {group.scale}",
        tuple(columns),
        tuple(rows),
        name=group.anchor,
        note=(
            "Ours: mean ± standard deviation over the seeds. Published figures belong to the networks and "
            "data of the papers; at another scale only the order of the rows can be compared."
        ),
        csv_columns=CSV,
        csv_rows=tuple(
            csv_row(group, arm, group.labels[arm], metric) for arm in group.arms for metric in group.metrics
        ),
    )


def heading_of(group: Group, arm: str) -> TableCell:
    known = group.experiment.arms.get(arm) if group.experiment else None
    label = group.labels[arm]
    return TableCell(label, label, aside="(control)" if known and known.control else "", kind="words")


def published_cell(group: Group, arm: str, metric: Metric) -> TableCell:
    found = group.published(arm, metric.key)
    if found is None:
        return TableCell(MISSING)
    return number_cell(found[0], found[1], metric.digits)


def our_cell(group: Group, arm: str, metric: Metric) -> TableCell:
    sample = group.sample(arm, metric.key)
    return number_cell(sample.mean, sample.spread, metric.digits, "ours") if sample else TableCell(MISSING)


def number_cell(value: Real | None, spread: Real | None, digits: int, kind: str = "") -> TableCell:
    text, aside = around(value, spread, digits)
    return TableCell(f"{text} {aside}".strip(), value, text, aside, kind=kind)


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
