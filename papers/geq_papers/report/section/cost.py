"""Cost of runs: parameters, time, evaluations of the map."""

from __future__ import annotations

from geq.number_format import MISSING, duration, shown
from geq_papers.report.evidence import Evidence, Group
from geq_papers.report.section import Section
from geq_papers.report.seed_values import Sample
from geq_papers.report.table import Column, ReportTable, TableCell

COLUMNS = (
    Column("Experiment"),
    Column("Scale"),
    Column("Model"),
    Column("Parameters", numeric=True),
    Column("Epochs", numeric=True),
    Column("CPU time", numeric=True),
    Column("per epoch", numeric=True),
    Column("Evaluations", numeric=True),
    Column("Residual", numeric=True),
    Column("Converged", numeric=True),
)


def costs(evidence: Evidence) -> Section:
    rows = [row(group, arm) for group in evidence.groups for arm in group.arms if group.of(arm)]
    table = ReportTable(
        "Cost of a run",
        COLUMNS,
        tuple(rows),
        note=(
            "Means over the seeds; CSV has seconds. Evaluations: of the map, for one forward solve of a "
            "branch. Converged: share of the equilibria that reached the tolerance."
        ),
    )
    total = sum(record.cpu_seconds for record in evidence.records)
    spent = {"costs": table, "runs": len(evidence.records), "time": duration(total)}
    return Section("cost", "Cost", "cost", spent, (table,))


def row(group: Group, arm: str) -> tuple[TableCell, ...]:
    own = group.of(arm)
    size = group.sample(arm, "parameters").mean
    seconds = Sample.of([record.cpu_seconds for record in own]).mean
    epochs = Sample.of([len(record.epochs) for record in own if record.epochs]).mean
    each = seconds / epochs if seconds is not None and epochs else None

    def solver(key: str) -> float | None:
        return Sample.of([record.solver.get(key) for record in own]).mean

    converged = solver("converged")
    return (
        TableCell(group.experiment.source if group.experiment else group.name),
        TableCell(group.scale),
        TableCell(group.labels[arm], kind="words"),
        TableCell(shown(size, 0), size),
        TableCell(shown(epochs), epochs),
        TableCell(duration(seconds), seconds),
        TableCell(duration(each), each),
        TableCell(shown(solver("evaluations")), solver("evaluations")),
        TableCell(shown(solver("residual")), solver("residual")),
        TableCell(MISSING if converged is None else f"{shown(100 * converged, 1)} %", converged),
    )
