"""Options of a command: parsed by jsonargparse, with an answer to a misspelt one that names the nearest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from geq.error import MissingExtraError, OptionError, unknown_name

if TYPE_CHECKING:
    import jsonargparse


def parse(
    command: str,
    summary: str,
    arguments: list[str],
    declare: Callable[[Any], None],
) -> jsonargparse.Namespace:
    """Parse ``arguments`` of ``geq command``; ``declare`` adds the options to an ``ArgumentParser``."""
    try:
        import jsonargparse
    except ImportError as problem:
        raise MissingExtraError.naming("jsonargparse", "train", f"geq {command}") from problem
    parser = jsonargparse.ArgumentParser(
        prog=f"geq {command}", description=summary, exit_on_error=False, allow_abbrev=False
    )
    declare(parser)
    known = [flag for action in parser._actions for flag in action.option_strings]
    for argument in arguments:
        flag = argument.split("=", 1)[0]
        if flag.startswith("--") and flag != "--" and flag not in known:
            raise unknown_name(
                f"option of geq {command}", flag, [name for name in known if name.startswith("--")]
            )
    try:
        return parser.parse_args(arguments)
    except jsonargparse.ArgumentError as problem:
        message = " ".join(str(problem).split())
        raise OptionError(f"geq {command}: {message}; see geq {command} --help") from problem
