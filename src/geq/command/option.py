"""Options of a command: parsed by jsonargparse, with an answer to a misspelt one that names the nearest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from geq.document import parse_yaml
from geq.errors import MissingExtraError, OptionError, unknown_name

if TYPE_CHECKING:
    import jsonargparse

    from geq.training.option import TrainOptions


def parse(
    command: str,
    summary: str,
    arguments: list[str],
    declare: Callable[[Any], None],
) -> jsonargparse.Namespace:
    """Parse ``arguments`` of ``geq command``; ``declare`` adds the options to an ``ArgumentParser``."""
    parser = build_parser(command, summary, declare)
    import jsonargparse

    known = [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]
    arguments = [spelt(argument, known) for argument in arguments]
    for argument in arguments:
        flag = argument.split("=", 1)[0]
        if flag.startswith("--") and flag != "--" and flag not in known:
            raise unknown_name(f"option of geq {command}", flag, known)
    for flag, value in pairwise([*arguments, ""]):
        if flag == "--config" or flag.startswith("--config="):
            check_config(value if flag == "--config" else flag.partition("=")[2])
    try:
        return parser.parse_args(arguments)
    except jsonargparse.ArgumentError as problem:
        message = " ".join(str(problem).split())
        raise OptionError(f"geq {command}: {message}; see geq {command} --help") from problem


def check_config(value: str) -> None:
    """Refuse a file (or text) of options that is not plain YAML, before anyone else reads it.

    >>> check_config("epochs: 3")
    >>> check_config("a: &x [1]\\nb: [*x, *x]")
    Traceback (most recent call last):
    geq.errors.OptionError: --config must be a YAML file of options: it refers to another place in itself ...
    """
    try:
        path = Path(value)
        text = path.read_text(encoding="utf-8") if "\n" not in value and path.is_file() else value
        parse_yaml(text)
    except (OSError, ValueError) as problem:
        raise OptionError(f"--config must be a YAML file of options: {problem}") from problem


def spelt(argument: str, known: list[str]) -> str:
    """An option with dashes for underscores, or the other way round, as it is declared.

    >>> spelt("--data-root=x", ["--data_root"]), spelt("a-b", ["--data_root"])
    ('--data_root=x', 'a-b')
    """
    flag, equals, value = argument.partition("=")
    if flag.startswith("--") and flag not in known:
        named = {other.replace("-", "_"): other for other in known}
        flag = named.get(flag.replace("-", "_"), flag)
    return flag + equals + value


def build_parser(command: str, summary: str, declare: Callable[[Any], None]) -> jsonargparse.ArgumentParser:
    try:
        import jsonargparse
    except ImportError as problem:
        raise MissingExtraError.naming("jsonargparse", "train", f"geq {command}") from problem
    parser = jsonargparse.ArgumentParser(
        prog=f"geq {command}", description=summary, exit_on_error=False, allow_abbrev=False
    )
    declare(parser)
    return parser


def add_json(parser: Any) -> None:
    """``--json``: the output is one JSON document, and what else there is to say goes to the error stream."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables, for scripts")


def add_quiet(parser: Any) -> None:
    """``--quiet``, for commands that leave files: their exit status says how it went."""
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")


def add_inference(parser: Any) -> None:
    """How a network that labels pixels looks at images, where that is not to be as in its run."""
    own = "; the default is the run's own"
    parser.add_argument(
        "--inference",
        type=Literal["full", "sliding"] | None,
        default=None,
        help=f"of a network that labels pixels: at once, or through a window{own}",
    )
    parser.add_argument(
        "--window", type=tuple[int, int] | None, default=None, help=f"height and width, as '[96, 128]'{own}"
    )
    parser.add_argument(
        "--overlap",
        type=float | None,
        default=None,
        help=f"share that neighbouring windows have in common{own}",
    )


def chosen_inference(options: TrainOptions, asked: Any) -> TrainOptions:
    """The options of a run with what ``asked`` changes of its inference."""
    return replace(
        options,
        inference=asked.inference or options.inference,
        window=options.window if asked.window is None else tuple(asked.window),
        overlap=options.overlap if asked.overlap is None else asked.overlap,
    )
