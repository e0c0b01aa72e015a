"""Log of a run: files for programs and TensorBoard, and a progress bar or a line per epoch for people."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from geq.training.checkpoint import Position
from geq.training.headline_metric import headline_of, unit_of
from geq.training.run_folder import RunFolder
from geq.training.task import Task


class Journal:
    """Write ``log.jsonl`` and the events of TensorBoard.

    Args:
        folder: of the run.
        step: optimiser steps so far; TensorBoard forgets what a killed process has written after them.
    """

    def __init__(self, folder: RunFolder, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.folder = folder
        self.writer: Any = SummaryWriter(str(folder.tensorboard), purge_step=step + 1)

    def write(self, history: list[dict[str, Any]]) -> None:
        """Write the whole log, and the numbers of its last line for TensorBoard."""
        self.folder.write_log(history)
        for name, value in history[-1].items():
            if isinstance(value, float):
                self.writer.add_scalar(name.replace("_", "/", 1), value, history[-1]["step"])
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


def line(record: dict[str, Any], monitored: str) -> str:
    """One epoch in a line.

    >>> line({"epoch": 3, "train_loss": 0.25, "train_accuracy": 91.0, "test_accuracy": 95.0}, "test")
    'epoch   3  loss 0.2500  accuracy 91.00 %  test 95.00 %'
    """
    parts = [f"epoch {record['epoch']:3d}", f"loss {record['train_loss']:.4f}"]
    for part in ("train", monitored):
        reached = headline_of(record, part)
        if reached is not None:
            parts.append(
                f"{reached[0] if part == 'train' else monitored} {reached[1]:.2f} {unit_of(reached[0])}"
            )
    if "solver_steps" in record:
        parts.append(f"steps {record['solver_steps']:.1f}")
        parts.append(f"residual {record['solver_residual']:.0e}")
        parts.append(f"not converged {100 * record['solver_unconverged']:.1f} %")
    if "beta_mean" in record:
        parts.append(f"β {record['beta_mean']:.2f}")
    if "seconds" in record:
        parts.append(f"{record['seconds']:.1f} s")
    return "  ".join(parts)


class EpochBar:
    """
    Args:
        console: where to print.
        monitored: 'validation' or 'test'.
        total: optimiser steps of the whole run.
    """

    INTERVAL, KEPT = 0.2, 0.9
    """Seconds between updates, and the share of the old value in the smoothed accuracy."""

    def __init__(self, console: Console, monitored: str, total: int) -> None:
        self.console, self.monitored, self.total = console, monitored, total
        self.progress: Progress | None = None
        self.updated = 0.0
        self.accuracy: float | None = None

    def start(self, position: Position) -> None:
        if not self.console.is_terminal:
            return
        self.progress = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
            console=self.console,
            transient=True,
        )
        self.row = self.progress.add_task(
            "train", total=self.total, completed=position.step, epoch=position.epoch + 1, state=""
        )
        self.progress.start()

    def step(self, position: Position, task: Task, loss: Tensor, outputs: Tensor, labels: Tensor) -> None:
        if self.progress is None:
            return
        correct = 100 * task.share_correct(outputs, labels)
        self.accuracy = (
            correct if self.accuracy is None else self.KEPT * self.accuracy + (1 - self.KEPT) * correct
        )
        if time.monotonic() - self.updated < self.INTERVAL:
            return
        self.updated = time.monotonic()
        state = f"loss {float(loss):.3f}  accuracy {self.accuracy:.1f} %"
        reports = task.model.solutions().values()
        if reports:
            steps = sum(report.steps_mean for report in reports) / len(reports)
            missed = 1 - sum(report.converged for report in reports) / len(reports)
            residual = max(report.residual_max for report in reports)
            state += f"  steps {steps:.1f}  residual {residual:.0e}  not converged {100 * missed:.0f} %"
        self.progress.update(self.row, completed=position.step, epoch=position.epoch + 1, state=state)

    def epoch(self, record: dict[str, Any]) -> None:
        console = self.console if self.progress is None else self.progress.console
        console.print(line(record, self.monitored), highlight=False, soft_wrap=True)

    def stop(self) -> None:
        if self.progress is not None:
            self.progress.stop()
            self.progress = None
