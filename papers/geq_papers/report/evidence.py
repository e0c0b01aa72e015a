"""Records below a folder, sorted by experiment and scale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geq.errors import DataError
from geq.number_format import Real
from geq_papers.experiment.claim import Judgement, judge
from geq_papers.experiment.record import Record, read_records
from geq_papers.report.seed_values import Sample, number

if TYPE_CHECKING:
    from geq_papers.experiment.experiment import Experiment, Metric

SCALES = ("paper", "small", "smoke")
"""In the order in which they tell more."""


@dataclass(frozen=True)
class Group:
    """The runs of one experiment at one scale.

    Args:
        experiment: what its file says of it; None for a name that this version does not know.
    """

    name: str
    scale: str
    records: tuple[Record, ...]
    experiment: Experiment | None

    @property
    def anchor(self) -> str:
        return f"{self.name}-{self.scale}"

    @property
    def title(self) -> str:
        return self.experiment.title if self.experiment else self.name

    @property
    def arms(self) -> list[str]:
        """Those with runs or published figures, in the order of the experiment's file."""
        ran = {record.arm for record in self.records}
        if self.experiment is None:
            return sorted(ran)
        known = [arm for arm in self.experiment.arms if arm in ran or arm in self.experiment.published]
        return known + sorted(ran - set(known))

    def label(self, arm: str) -> str:
        known = self.experiment.arms.get(arm) if self.experiment else None
        return known.label if known else arm

    @property
    def labels(self) -> dict[str, str]:
        """Arm -> what to call it; the arm's name is added where two would be called the same."""
        plain = {arm: self.label(arm) for arm in self.arms}
        often = Counter(plain.values())
        return {arm: label if often[label] == 1 else f"{label} ({arm})" for arm, label in plain.items()}

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The columns: those of the experiment's file, or all that any record of an unknown one has.

        Parameters have a column of their own in every table.
        """
        if self.experiment is not None:
            return tuple(metric for metric in self.experiment.metrics if metric.key != "parameters")
        from geq_papers.experiment.experiment import Metric

        keys = dict.fromkeys(
            key for record in self.records for key, value in record.metrics.items() if value is not None
        )
        return tuple(
            Metric(key, key.replace("_", " "), unit="", digits=3)
            for key in keys
            if key != "parameters" and not key.startswith("corruption/")
        )

    def of(self, arm: str) -> list[Record]:
        return [record for record in self.records if record.arm == arm]

    def sample(self, arm: str, metric: str) -> Sample:
        return Sample.of([number(record.figures.get(metric)) for record in self.of(arm)])

    def published(self, arm: str, metric: str) -> tuple[Real, Real | None] | None:
        return self.experiment.published.get(arm, {}).get(metric) if self.experiment else None

    def judgements(self) -> list[Judgement]:
        return [judge(claim, self.records) for claim in self.experiment.claims] if self.experiment else []


@dataclass(frozen=True)
class Evidence:
    """Everything that the page is made of.

    Args:
        groups: by experiment, in the order of the registry, then by scale.
        missing: experiments without a record.
        complaints: what could not be used, in words.
    """

    groups: tuple[Group, ...]
    missing: tuple[Experiment, ...]
    complaints: tuple[str, ...]

    @property
    def records(self) -> list[Record]:
        return [record for group in self.groups for record in group.records]


Selection = Callable[["Experiment", Any, list[Record]], tuple[list[Record], list[str]]]
"""(experiment, scale, records) -> those that count, and words on the others;
geq_papers.experiment.plan.usable."""


def gather(
    results: str | Path, experiments: Mapping[str, Experiment], select: Selection | None = None
) -> Evidence:
    """Read what is below ``results`` and sort it.

    Args:
        results: Folder or file of records.
        experiments: Known experiments by name.
        select: Which records of a known experiment count; without it, those of :func:`consistent`.
    """
    return sort(*read(results), experiments, select)


def read(results: str | Path) -> tuple[list[Record], list[str]]:
    """Return the records below ``results`` and complaints; an error if there is not one record."""
    if not Path(results).exists():
        raise DataError(
            f"{results} is not there: give the folder with the records that 'geq reproduce' writes"
        )
    records, complaints = read_records(results)
    if not records:
        broken = f" ({len(complaints)} lines are something else: {complaints[0]})" if complaints else ""
        raise DataError(
            f"a report needs at least one record: none is below {results}{broken}; "
            "'geq reproduce all --scale smoke' writes some"
        )
    return records, complaints


def sort(
    records: list[Record],
    complaints: list[str],
    experiments: Mapping[str, Experiment],
    select: Selection | None = None,
) -> Evidence:
    complaints = list(complaints)
    places: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        places.setdefault((record.experiment, record.scale), []).append(harmless(record))
    order = {name: position for position, name in enumerate(experiments)}
    scales = {name: position for position, name in enumerate(SCALES)}
    groups = []
    for name, scale in sorted(
        places, key=lambda at: (order.get(at[0], len(order)), at[0], scales.get(at[1], len(scales)), at[1])
    ):
        own, experiment = places[name, scale], experiments.get(name)
        kept: list[Record] = []
        if experiment is None:
            complaints.append(f"{name}: this version knows no such experiment; shown without claims")
        elif select is not None and scale in experiment.scales:
            kept, said = select(experiment, scale, own)
            complaints += said
            if not kept:
                complaints.append(f"{name} at scale {scale}: shown as it was configured when it was run")
        if not kept:
            kept, said = consistent(own)
            complaints += [f"{name} at scale {scale}: {sentence}" for sentence in said]
        groups.append(Group(name, scale, tuple(kept), experiment))
    ran = {name for name, _ in places}
    missing = tuple(experiment for name, experiment in experiments.items() if name not in ran)
    return Evidence(tuple(groups), missing, tuple(dict.fromkeys(complaints)))


def harmless(record: Record) -> Record:
    """With numbers, or nothing, where numbers belong: a record may come from anywhere."""
    return replace(
        record,
        metrics={key: number(value) for key, value in record.metrics.items()},
        solver={key: number(value) for key, value in record.solver.items()},
    )


def consistent(records: list[Record]) -> tuple[list[Record], list[str]]:
    """The runs of each arm that belong together: the configuration that was finished last, each seed once."""
    kept: list[Record] = []
    said: list[str] = []
    for arm in sorted({record.arm for record in records}):
        own = sorted(
            (record for record in records if record.arm == arm),
            key=lambda one: (one.finished, one.config_hash),
        )
        newest = own[-1].config_hash
        seeds: dict[int, Record] = {}
        for record in own:
            if record.config_hash == newest:
                seeds[record.seed] = record
        other = sum(record.config_hash != newest for record in own)
        twice = len(own) - other - len(seeds)
        if other:
            said.append(f"{other} runs of {arm} with an older configuration are left out")
        if twice:
            said.append(f"{twice} runs of {arm} were done again with the same seed; the last counts")
        kept += [seeds[seed] for seed in sorted(seeds)]
    return kept, said
