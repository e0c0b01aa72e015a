"""Unrolled iterations against the implicit gradient (OptEq, table 8): accuracy, time and residual of each.

A study is a folder with one run per setting and ``tradeoff.jsonl``, a line per measured setting. Called again
with the same options it resumes: measured settings are read, interrupted runs are resumed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from geq.atomic_io import write_durably
from geq.equilibrium import ignore_failures
from geq.errors import CheckpointError, OptionError
from geq.model.gradient_config import DifferentiationConfig
from geq.model.model_registry import model_spec
from geq.model.network import Network
from geq.safe_parsing import parse_json
from geq.training.device import limited_threads
from geq.training.matplotlib_figure import new_figure, png
from geq.training.run_folder import CONFIG, RunFolder
from geq.training.setup import evaluation_loader, open_split
from geq.training.train_options import TrainOptions
from geq_papers.tradeoff_setting import TradeoffOptions, TradeoffSetting, settings

if TYPE_CHECKING:
    from geq.training.fit import TrainingOutcome


TIMED_IMAGES, REPEATS = 500, 3
"""Images on which times are taken (the best of so many passes), and the residual."""


@dataclass(frozen=True)
class TradeoffRow:
    """Result of one setting: a line of the table.

    Args:
        label: of the setting.
        accuracy: on the test images, in %.
        inference: milliseconds of a forward pass for one image.
        back_propagation: milliseconds of a backward pass for one image, after its forward pass.
        residual: ‖T(z) − z‖/‖T(z)‖, mean over test images and equilibria.
        evaluations: of T in a forward pass, mean over the same.
        training: seconds.
    """

    label: str
    accuracy: float
    inference: float
    back_propagation: float
    residual: float
    evaluations: float
    training: float


@dataclass(frozen=True)
class Tradeoff:
    """A study: what is compared, on what, and where it is kept."""

    chosen: TradeoffOptions
    base: TrainOptions

    def __post_init__(self) -> None:
        config = model_spec(self.base.model).config
        if not isinstance(config, DifferentiationConfig):
            raise OptionError(
                "the trade-off needs a network that can be differentiated in several ways, such as "
                f"deep_opteq_tiny: got {self.base.model}"
            )
        if self.base.differentiation() or self.base.name is not None:
            raise OptionError(
                "the trade-off sets gradient, steps and name of its runs itself, and trains without a "
                "regulariser: leave them out (--study names the folder)"
            )

    @property
    def folder(self) -> Path:
        return Path(self.base.runs) / (self.chosen.study or f"tradeoff-{self.base.model}-{self.base.data}")

    @property
    def record(self) -> Path:
        return self.folder / "tradeoff.jsonl"

    @property
    def picture(self) -> Path:
        return self.folder / "tradeoff.png"

    def rows(self) -> dict[str, TradeoffRow]:
        """The settings that are measured already."""
        if not self.record.exists():
            return {}
        try:
            lines = [parse_json(line) for line in self.record.read_text(encoding="utf-8").splitlines()]
            return {str(line["label"]): TradeoffRow(**line) for line in lines}
        except (OSError, ValueError, TypeError, KeyError) as problem:
            raise CheckpointError(
                f"{self.record} cannot be read ({problem}): delete it; the runs beside it are kept"
            ) from problem

    def continue_until_done(
        self, report: Callable[[TradeoffSetting], None], console: Any = None
    ) -> list[TradeoffRow]:
        """Train and measure what is missing; ``report`` is told before each."""
        wanted = settings(self.chosen)
        for setting in wanted:
            self._refuse_other_options(setting)
        for setting in wanted:
            found = self.rows()
            if setting.label not in found:
                report(setting)
                found[setting.label] = self._measured(self._trained(setting, console), setting)
                lines = "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in found.values())
                write_durably(self.record, lines.encode())
        found = self.rows()
        return [found[setting.label] for setting in wanted]

    def _refuse_other_options(self, setting: TradeoffSetting) -> None:
        """Rows of different trainings would stand in one table."""
        if not (self.folder / setting.name / CONFIG).exists():
            return
        before = RunFolder.find(self.folder / setting.name).options().as_mapping()
        now = setting.applied(self.base, self.folder).as_mapping()
        changed = [name for name, value in now.items() if before[name] != value and name != "runs"]
        if changed:
            raise OptionError(
                f"{self.folder} holds runs with other options ({', '.join(changed)}): give the same ones to "
                "go on, or another --study"
            )

    def _trained(self, setting: TradeoffSetting, console: Any) -> TrainingOutcome:
        from geq.training.fit import resume, train  # loads Lightning, which the options do not need

        path = self.folder / setting.name
        if (path / CONFIG).exists():
            outcome = resume(RunFolder.find(path), console)
        else:
            outcome = train(setting.applied(self.base, self.folder), console)
        if outcome is None:
            raise OptionError("the trade-off is measured on one device: got --devices × --num_nodes above 1")
        return outcome

    def _measured(self, outcome: TrainingOutcome, setting: TradeoffSetting) -> TradeoffRow:
        model = Network.from_pretrained(outcome.folder.model)
        test = open_split(self.base, "test")
        statistics = outcome.folder.data().statistics
        loader = evaluation_loader(test, statistics=statistics, batch_size=self.base.batch_size)
        with limited_threads(self.base, model), ignore_failures(model):
            batches = list(first_images(loader, TIMED_IMAGES))
            images = sum(len(labels) for _, labels in batches)
            times = [
                (timed_inference(model, batches), timed_backward(model, batches)) for _ in range(REPEATS)
            ]
            residual, evaluations = solved(model, batches)
        forward, backward = (1000 * min(column) / images for column in zip(*times, strict=True))
        return TradeoffRow(
            label=setting.label,
            accuracy=outcome.final["test_accuracy"],
            inference=forward,
            back_propagation=backward,
            residual=residual,
            evaluations=evaluations,
            training=outcome.final["seconds"],
        )


Batch = tuple[Tensor, Tensor]


def first_images(batches: Any, number: int) -> Iterator[Batch]:
    """Batches until ``number`` images are there."""
    seen = 0
    for images, labels in batches:
        yield images, labels
        seen += len(labels)
        if seen >= number:
            return


@torch.no_grad()
def timed_inference(model: Network, batches: list[Batch]) -> float:
    begin = time.perf_counter()
    for images, _ in batches:
        model(images)
    return time.perf_counter() - begin


def timed_backward(model: Network, batches: list[Batch]) -> float:
    total = 0.0
    for images, labels in batches:
        loss = functional.cross_entropy(model(images), labels)
        begin = time.perf_counter()
        loss.backward()
        total += time.perf_counter() - begin
        model.zero_grad()
    return total


@torch.no_grad()
def solved(model: Network, batches: list[Batch]) -> tuple[float, float]:
    """Mean residual, and mean evaluations of the maps."""
    residuals, steps = [], []
    for images, _ in batches:
        model(images)
        for layer in model.equilibria().values():
            assert layer.last_solution is not None
            residuals.append(layer.last_solution.residual.double())
            steps.append(layer.last_solution.steps.double())
    return float(torch.cat(residuals).mean()), float(torch.cat(steps).mean())


KINDS = {"unrolled": ("C0", "o", (6, 6)), "IFT": ("C1", "s", (6, -14))}
"""Colour, marker, and where the label of a point stands: above or below, so that neighbours can be read."""


def draw_tradeoff(rows: list[TradeoffRow], path: Path, title: str) -> None:
    """Accuracy against time on the left, the residual of each setting on the right."""
    figure = new_figure(12.0, 4.8)
    figure.suptitle(title)
    left, right = figure.subplots(1, 2)
    _accuracy(left, rows)
    _residual(right, rows)
    write_durably(path, png(figure))


def _accuracy(axes: Any, rows: list[TradeoffRow]) -> None:
    for kind, (colour, marker, offset) in KINDS.items():
        chosen = [row for row in rows if row.label.startswith(kind)]
        times = [row.inference + row.back_propagation for row in chosen]
        style = "-" if kind == "unrolled" else "none"
        axes.plot(times, [row.accuracy for row in chosen], color=colour, marker=marker, ls=style, label=kind)
        for where, row in zip(times, chosen, strict=True):
            setting = row.label.split(", ")[1]
            axes.annotate(setting, (where, row.accuracy), xytext=offset, textcoords="offset points")
    axes.set_xlabel("inference + back-propagation, ms per image")
    axes.set_ylabel("test accuracy, %")
    axes.margins(0.2, 0.15)
    axes.set_xlim(left=0)
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)


def _residual(axes: Any, rows: list[TradeoffRow]) -> None:
    colours = [next(c for kind, (c, _, _) in KINDS.items() if row.label.startswith(kind)) for row in rows]
    bars = axes.barh([row.label for row in rows], [row.residual for row in rows], color=colours)
    axes.bar_label(bars, [f"{row.residual:.1e}" for row in rows], padding=4)
    axes.set_xscale("log")
    axes.margins(x=0.25)
    axes.invert_yaxis()
    axes.set_xlabel("relative residual of the state")
