"""Cost of runs: parameters, time, evaluations of the map."""

from __future__ import annotations

from geq.number_format import MISSING, duration, shown
from geq_papers.report.sample import Sample
from geq_papers.report.section.part import Section
from geq_papers.report.source import Evidence, Group
from geq_papers.report.table import Cell, Column, Table

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
    table = Table(
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


def row(group: Group, arm: str) -> tuple[Cell, ...]:
    own = group.of(arm)
    size = group.sample(arm, "parameters").mean
    seconds = Sample.of([record.cpu_seconds for record in own]).mean
    epochs = Sample.of([len(record.epochs) for record in own if record.epochs]).mean
    each = seconds / epochs if seconds is not None and epochs else None

    def solver(key: str) -> float | None:
        return Sample.of([record.solver.get(key) for record in own]).mean

    converged = solver("converged")
    return (
        Cell(group.experiment.source if group.experiment else group.name),
        Cell(group.scale),
        Cell(group.labels[arm], kind="words"),
        Cell(shown(size, 0), size),
        Cell(shown(epochs), epochs),
        Cell(duration(seconds), seconds),
        Cell(duration(each), each),
        Cell(shown(solver("evaluations")), solver("evaluations")),
        Cell(shown(solver("residual")), solver("residual")),
        Cell(MISSING if converged is None else f"{shown(100 * converged, 1)} %", converged),
    )
