"""The settings that ``geq tradeoff`` compares; torch is not needed to name them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from geq.safe_parsing import short
from geq.training.train_options import LONGEST_NAME, TrainOptions, demand, is_folder_name


@dataclass(frozen=True)
class TradeoffOptions:
    """trade-off

    Args:
        unrolled: numbers K of iterations to train through.
        thresholds: relative residuals at which the implicit gradient takes the fixed point as solved; the
            adjoint system has the same.
        study: name of the folder below --runs; the default is tradeoff-MODEL-DATA. An existing one resumes.
    """

    unrolled: tuple[int, ...] = (5, 10, 20, 40)
    thresholds: tuple[float, ...] = (1e-3, 1e-2)
    study: str | None = None

    def __post_init__(self) -> None:
        demand(
            self.study is None or is_folder_name(self.study),
            f"study must be the name of one folder, at most {LONGEST_NAME} bytes",
            short(self.study),
        )
        demand(
            all(k >= 1 for k in self.unrolled), "unrolled must be at least 1 iteration each", self.unrolled
        )
        demand(all(0 < t < 1 for t in self.thresholds), "thresholds must be in (0, 1)", self.thresholds)
        demand(bool(self.unrolled or self.thresholds), "there must be something to compare", self)


@dataclass(frozen=True)
class TradeoffSetting:
    """One way to train."""

    label: str
    name: str
    gradient: str
    steps: int | None = None
    threshold: float | None = None

    def applied(self, options: TrainOptions, folder: Path) -> TrainOptions:
        tolerance = {} if self.threshold is None else {"tol": self.threshold, "gradient_tol": self.threshold}
        changes: dict[str, Any] = {"gradient": self.gradient, "steps": self.steps}
        overridden = {**options.override, **tolerance}
        return replace(options, **changes, override=overridden, name=self.name, runs=str(folder))


def settings(chosen: TradeoffOptions) -> list[TradeoffSetting]:
    """
    >>> [setting.label for setting in settings(TradeoffOptions(unrolled=(5,), thresholds=(0.01,)))]
    ['unrolled, K = 5', 'IFT, threshold 0.01']
    """
    unrolled = [
        TradeoffSetting(f"unrolled, K = {k}", f"unrolled-{k}", "unrolled", steps=k) for k in chosen.unrolled
    ]
    implicit = [
        TradeoffSetting(f"IFT, threshold {t:g}", f"implicit-{t:g}", "implicit", threshold=t)
        for t in chosen.thresholds
    ]
    return [*unrolled, *implicit]
