"""Output of a command: coloured tables for people, one JSON document or nothing for scripts.

Colours go only to a terminal, and not there either where ``NO_COLOR`` is set; rich sees to that.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from geq.errors import MissingExtraError
from geq.safe_parsing import finite
from geq.standard_streams import takes_every_letter

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

GOOD, BAD, WARNING = "green", "bold red", "yellow"
"""Colours of results: good, bad and doubtful."""


def console_for(on_stderr: bool = False, quiet: bool = False, width: int = 160) -> Console:
    """Return the console for people.

    Args:
        on_stderr: not on the output, which is for a program (``--json``).
        quiet: print nothing at all.
        width: at least that many columns where the output is no terminal, as a file has no width of its own.
    """
    try:
        from rich.console import Console
    except ImportError as problem:
        raise MissingExtraError.naming("rich", "train", "the command line") from problem
    console = Console(stderr=on_stderr, quiet=quiet)
    if not console.is_terminal:
        console.width = max(console.width, width)
    return console


def new_table(*headings: str, unbroken: tuple[str, ...] = (), **options: Any) -> Table:
    """Return an empty table.

    Args:
        headings: Of the columns; ``>`` before one aligns its column to the right.
        unbroken: Headings, without that sign, of the columns whose words are never broken.
        options: Of the table, such as its title.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, **options)
    for heading in headings:
        name = heading.removeprefix(">")
        table.add_column(name, justify="right" if heading != name else "left", no_wrap=name in unbroken)
    return table


class Bars:
    """Progress on the error stream, with a bar for each thing that takes long.

    Args:
        in_bytes: Count bytes.
        kept: Leave the bars when all is done, also where the stream is no terminal.
        quiet: Show nothing.
    """

    def __init__(self, in_bytes: bool = False, kept: bool = False, quiet: bool = False) -> None:
        self.in_bytes, self.kept, self.quiet = in_bytes, kept, quiet
        self.shown: Any = None
        self.tasks: dict[str, Any] = {}

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __call__(self, what: str, done: int, total: int | None) -> None:
        if self.shown is None:
            console = console_for(on_stderr=True, quiet=self.quiet)
            from rich import progress

            self.shown = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.DownloadColumn() if self.in_bytes else progress.MofNCompleteColumn(),
                progress.TimeRemainingColumn(),
                console=console,
                transient=not self.kept,
                redirect_stdout=False,
                disable=self.quiet or not (self.kept or console.is_terminal),
            )
            self.shown.start()
        if what not in self.tasks:
            self.tasks[what] = self.shown.add_task(what, total=total)
        self.shown.update(self.tasks[what], completed=done, total=total)

    def close(self) -> None:
        """Stop before something is printed, which would run into the bars."""
        if self.shown is not None:
            self.shown.stop()
        self.shown, self.tasks = None, {}


def print_json(value: Any) -> None:
    """Strict JSON on the output; a number that is not finite is null."""

    escaped = not takes_every_letter()  # JSON has its own way to write a letter that an encoding lacks
    print(json.dumps(finite(value), indent=2, ensure_ascii=escaped, allow_nan=False))
