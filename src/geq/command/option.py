"""Options of a command: parsed by jsonargparse, with an answer to a misspelt one that names the nearest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from geq.error import MissingExtraError, OptionError, unknown_name

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
