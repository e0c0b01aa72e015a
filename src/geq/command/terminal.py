"""What a command prints: tables in colours for people, one JSON document or nothing for scripts.

Colours go only to a terminal, and not there either where ``NO_COLOR`` is set; rich sees to that.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from geq.error import MissingExtraError
from geq.output import takes_every_letter

if TYPE_CHECKING:
    from rich.console import Console

GOOD, BAD, WARNING = "green", "bold red", "yellow"
"""Colours that mean something: what holds, what does not, and what to look at."""


def console_for(on_stderr: bool = False, quiet: bool = False, width: int = 160) -> Console:
    """Where to print what is for people.

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


def print_json(value: Any) -> None:
    """Strict JSON on the output; a number that is not finite is null."""
    from geq.analysis.result import finite

    escaped = not takes_every_letter()  # JSON has its own way to write a letter that an encoding lacks
    print(json.dumps(finite(value), indent=2, ensure_ascii=escaped, allow_nan=False))
