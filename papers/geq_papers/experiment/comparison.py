"""Results of an experiment: published and obtained side by side, and the claims with their verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from geq_papers.experiment.claim import Judgement, deviation, is_number, judge
from geq_papers.experiment.experiment import Experiment, ScaleName
from geq_papers.experiment.record import Record


@dataclass(frozen=True)
class ComparedMetric:
    """One metric of one arm.

    Args:
        published, published_spread: in the paper; None where it has none.
        mean, spread: obtained; the spread is the standard deviation over seeds.
        seeds: that have a number.
        undefined: seeds whose number is not finite.
    """

    published: float | None
    published_spread: float | None
    mean: float | None
    spread: float | None
    seeds: tuple[int, ...]
    undefined: tuple[int, ...] = ()


@dataclass(frozen=True)
class ExperimentOutcome:
    """The table (arm -> metric -> cell), its claims, and the CPU-seconds of the trainings."""

    experiment: Experiment
    scale: ScaleName
    cells: dict[str, dict[str, ComparedMetric]]
    judgements: list[Judgement]
    cpu_seconds: float

    def as_mapping(self) -> dict[str, Any]:
        """For programs: names, numbers and verdicts; None where there is no number."""
        return {
            "name": self.experiment.name,
            "source": self.experiment.source,
            "title": self.experiment.title,
            "scale": self.scale,
            "cpu_seconds": self.cpu_seconds,
            "arms": {
                arm: {key: asdict(cell) for key, cell in cells.items()} for arm, cells in self.cells.items()
            },
            "claims": [
                {
                    "claim": judged.claim.text,
                    "ours": judged.claim.ours,
                    "metric": judged.claim.metric,
                    "published_difference": judged.claim.published_difference,
                    "difference": judged.mean,
                    "low": judged.low,
                    "high": judged.high,
                    "seeds": judged.seeds,
                    "verdict": judged.verdict,
                    "reason": judged.reason,
                    "caveat": judged.caveat,
                    "detectable": judged.detectable,
                }
                for judged in self.judgements
            ],
        }


def outcome(experiment: Experiment, scale: ScaleName, records: Iterable[Record]) -> ExperimentOutcome:
    """From records that are usable (see :func:`geq_papers.experiment.plan.usable`)."""
    found = list(records)
    here = set(experiment.arms_at(scale))
    cells = {
        arm: {
            metric.key: cell(experiment, arm, metric.key, [r for r in found if r.arm == arm])
            for metric in experiment.metrics
        }
        for arm in experiment.arms
        if arm in here or arm in experiment.published
    }
    judgements = [judge(claim, found) for claim in experiment.claims]
    return ExperimentOutcome(experiment, scale, cells, judgements, sum(r.cpu_seconds for r in found))


def cell(experiment: Experiment, arm: str, key: str, records: list[Record]) -> ComparedMetric:
    value, spread = experiment.published.get(arm, {}).get(key, (None, None))
    measured = {record.seed: record.figures[key] for record in records if key in record.figures}
    known = {seed: float(number) for seed, number in measured.items() if is_number(number)}
    numbers = list(known.values())
    return ComparedMetric(
        value,
        spread,
        sum(numbers) / len(numbers) if numbers else None,
        deviation(numbers),
        tuple(known),
        tuple(seed for seed in measured if seed not in known),
    )
