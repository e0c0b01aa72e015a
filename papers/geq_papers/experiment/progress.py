"""Progress of many runs, for a person: a bar for all, and a line for each run that is under way."""

from __future__ import annotations

import sys
from typing import Any

from geq.number_format import rough_duration
from geq_papers.experiment.plan import Job, Work, grouped
from geq_papers.experiment.run_time import expected_work


class RunBars:
    """Progress on the error stream: a bar for all, and a line for each run that is under way."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.shown: Any = None
        self.tasks: dict[str, Any] = {}
        self.whole: Any = None
        self.console: Any = None
        self.works = self.done = 0
        self.costs: dict[str, float] = {}
        self.shares: dict[str, float] = {}

    def watching(self, todo: list[Job]) -> Any:
        """A context in which the bars are shown."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self.console = Console(file=sys.stderr, quiet=self.quiet)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[rest]}"),
        )
        self.shown = Progress(
            *columns, console=self.console, transient=True, redirect_stdout=False, disable=self.quiet
        )
        works = grouped(todo)
        self.works = len(works)
        self.costs = {work.folder.name: expected_work(work) for work in works}
        self.whole = self.shown.add_task("all runs", total=len(works), rest="")
        return self.shown

    def started(self, work: Work) -> None:
        self.tasks[work.folder.name] = self.shown.add_task(work.label, total=work.options.epochs, rest="")

    def progressed(self, work: Work, epochs: int) -> None:
        self.shares[work.folder.name] = epochs / work.options.epochs
        self.shown.update(self.tasks[work.folder.name], completed=epochs, rest="epochs")

    def ended(self, work: Work, failure: str | None) -> None:
        self.done += 1
        self.shown.remove_task(self.tasks.pop(work.folder.name))
        self.shares[work.folder.name] = 1.0
        rest = f"about {rough_duration(self.left())} left" if self.done < self.works else ""
        self.shown.update(self.whole, completed=self.done, rest=rest)
        end = ("failed" if failure is not None else "done") + (f"; {rest}" if rest else "")
        self.console.print(f"{self.done}/{self.works} {work.label}: {end}", highlight=False, markup=False)

    def left(self) -> float:
        """Seconds until the end; runs count by what they are expected to take, which differs twentyfold."""
        elapsed = self.shown.tasks[0].elapsed or 0.0
        done = sum(cost * self.shares.get(name, 0.0) for name, cost in self.costs.items())
        return elapsed * (sum(self.costs.values()) / done - 1)
