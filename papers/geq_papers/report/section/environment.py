"""Environments of the runs, and every single run."""

from __future__ import annotations

from geq.number_format import MISSING, duration, shown
from geq.training.environment import short_commit
from geq_papers.experiment.record import Record
from geq_papers.report.evidence import Evidence
from geq_papers.report.section import Section
from geq_papers.report.seed_values import number
from geq_papers.report.table import Column, ReportTable, TableCell

RUN_COLUMNS = (
    Column("Experiment"),
    Column("Scale"),
    Column("Arm"),
    Column("Seed", numeric=True),
    Column("Result", numeric=True),
    Column("Metric"),
    Column("CPU time", numeric=True),
    Column("Finished"),
    Column("Configuration"),
    Column("Commit"),
)


def environment(evidence: Evidence) -> Section:
    machines = machine_table(evidence.records)
    runs = run_table(evidence)
    return Section(
        "environment", "Environment", "environment", {"machines": machines, "runs": runs}, (machines, runs)
    )


def machine_table(records: list[Record]) -> ReportTable:
    """A row for each combination of code, versions and machine."""
    counted: dict[tuple[str, str, str], int] = {}
    for record in records:
        place = (commit(record), listed(record.versions), listed(record.machine))
        counted[place] = counted.get(place, 0) + 1
    columns = (Column("Runs", numeric=True), Column("Commit"), Column("Versions"), Column("Machine"))
    rows = [
        (
            TableCell(str(runs), runs),
            TableCell(code),
            TableCell(versions, kind="words"),
            TableCell(machine, kind="words"),
        )
        for (code, versions, machine), runs in sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    ]
    return ReportTable("Code, versions and machines", columns, tuple(rows))


def run_table(evidence: Evidence) -> ReportTable:
    rows = []
    for group in evidence.groups:
        metric = next(iter(group.metrics), None)
        for record in group.records:
            value = number(record.metrics.get(metric.key)) if metric else None
            rows.append(
                (
                    TableCell(record.experiment),
                    TableCell(record.scale),
                    TableCell(record.arm),
                    TableCell(str(record.seed), record.seed),
                    TableCell(shown(value, metric.digits if metric else None), value),
                    TableCell(metric.head if metric else MISSING),
                    TableCell(duration(record.cpu_seconds), number(record.cpu_seconds)),
                    TableCell(record.finished),
                    TableCell(record.config_hash),
                    TableCell(commit(record)),
                )
            )
    return ReportTable("Runs", RUN_COLUMNS, tuple(rows), note="The first metric of each experiment.")


def commit(record: Record) -> str:
    return short_commit(record.commit, 10) or "unknown"


def listed(values: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None) or "unknown"
