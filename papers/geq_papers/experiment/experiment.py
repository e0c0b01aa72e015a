"""Experiment: arms trained alike, the metrics to show, the paper's figures and claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from geq.errors import OptionError, unknown_name
from geq_papers.experiment.claim import Claim

if TYPE_CHECKING:
    from geq.training.run_folder import RunFolder

ScaleName = Literal["smoke", "small", "paper"]
SCALES: tuple[ScaleName, ...] = ("smoke", "small", "paper")


@runtime_checkable
class Measurement(Protocol):
    """Something measured after the training; a frozen dataclass whose fields are its settings."""

    def measure(self, folder: RunFolder) -> dict[str, float | int | None]:
        """Metrics by name."""
        ...


@dataclass(frozen=True)
class Metric:
    """A column of the table.

    Args:
        key: in the records' metrics.
        label: the column's head.
        unit: after the head; "" for none.
        digits: after the point.
        lower_is_better: for marking the best.
    """

    key: str
    label: str
    unit: str = "%"
    digits: int = 2
    lower_is_better: bool = False

    @property
    def head(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit else self.label


@dataclass(frozen=True)
class Arm:
    """One row: a network, or a setting of it.

    Args:
        label: as the paper names it.
        options: scale -> options of TrainOptions that differ from the scale's recipe; the key "preset" names
            a file of geq.training.preset to start from. An arm has no run at scales that are missing.
        measurements: of this arm only, after those of the scale.
        control: a γ = 0 control, which no paper has.
    """

    label: str
    options: Mapping[ScaleName, Mapping[str, Any]]
    measurements: tuple[Measurement, ...] = ()
    control: bool = False


@dataclass(frozen=True)
class ExperimentScale:
    """Settings of an experiment at one scale.

    Args:
        recipe: options of TrainOptions that all arms have.
        note: what is different from the paper, or what it needs.
        measurements: of every run, after its training.
        seeds: number of seeds where --seeds does not say.
        first_seed: that they count from. A comparison that is to confirm what other runs suggested takes
            seeds that those did not have.
        gpu: needs a GPU to end in a sensible time.
    """

    recipe: Mapping[str, Any]
    note: str
    measurements: tuple[Measurement, ...] = ()
    seeds: int = 5
    gpu: bool = False
    first_seed: int = 0


Published = Mapping[str, Mapping[str, tuple[float, float | None]]]


@dataclass(frozen=True)
class Experiment:
    """A table or figure.

    Args:
        name: on the command line.
        title: what is compared.
        source: "GEQ table 1a".
        opening: command, expected time, what the paper reports.
        arms: by name, in the order of the table.
        metrics: the columns.
        claims: what the paper concludes from it, and what we ask besides.
        published: arm -> metric -> the paper's value and its spread.
        scales: how it is run.
        axes: of an ablation: what varies -> the arms on that curve and their values of it.
    """

    name: str
    title: str
    source: str
    opening: str
    arms: Mapping[str, Arm]
    metrics: tuple[Metric, ...]
    claims: tuple[Claim, ...]
    scales: Mapping[ScaleName, ExperimentScale]
    published: Published = field(default_factory=dict)
    axes: Mapping[str, Mapping[str, float | int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shown = {metric.key for metric in self.metrics}
        for arm in (*self.published, *(arm for claim in self.claims for arm in claim.arms)):
            if arm not in self.arms:
                raise unknown_name(f"arm of {self.name}", arm, self.arms)
        for claim in self.claims:
            if claim.metric not in shown:
                raise OptionError(f"{self.name}: the table must show what is claimed of: {claim.metric}")

    def metric(self, key: str) -> Metric:
        found = {metric.key: metric for metric in self.metrics}
        if key not in found:
            raise unknown_name(f"metric of {self.name}", key, found)
        return found[key]

    def scale(self, name: ScaleName) -> ExperimentScale:
        if name not in self.scales:
            raise unknown_name(f"scale of {self.name}", name, self.scales)
        return self.scales[name]

    def arms_at(self, scale: ScaleName) -> list[str]:
        """The arms that are run at a scale."""
        return [name for name, arm in self.arms.items() if scale in arm.options]
