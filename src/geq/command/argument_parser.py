"""Options of a command: parsed by jsonargparse, explained and refused in words for people."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal

from geq.data.dataset_options import IMAGE_FOLDER, DatasetOptions
from geq.errors import MissingExtraError, OptionError, unknown_name
from geq.model.config import field_types, in_words

if TYPE_CHECKING:
    import jsonargparse

    from geq.training.train_options import TrainOptions

SPELLING = "Dashes and underscores in names of options are the same: --data-root is --data_root."


def parse(
    command: str,
    summary: str,
    arguments: list[str],
    declare: Callable[[Any], None],
) -> jsonargparse.Namespace:
    """Parse ``arguments`` of ``geq command``; ``declare`` adds the options to an ``ArgumentParser``.

    In the result, ``given`` names the options that were typed, and a mapping of nested options such as
    ``--data.folder`` has only these.
    """
    parser = build_parser(command, summary, declare)
    import jsonargparse

    arguments = [dashes_replaced(argument) for argument in arguments]
    known = {flag: action for action in parser._actions for flag in action.option_strings}
    typed = dict.fromkeys(argument.split("=", 1)[0] for argument in arguments if argument.startswith("--"))
    typed.pop("--", None)
    for flag in typed:
        if flag not in known:
            raise unknown_name(f"option of geq {command}", flag, (name for name in known if name[:2] == "--"))
    try:
        parsed = parser.parse_args(arguments)
    except jsonargparse.ArgumentError as problem:
        message = explained(" ".join(str(problem).split()), parser)
        raise OptionError(f"geq {command}: {message}; see geq {command} --help") from problem
    given = {known[flag].dest for flag in typed}
    for action in parser._actions:
        if "." in action.dest and action.dest not in given:
            del parsed[action.dest]
    parsed.given = given
    return parsed


def nested(parsed: jsonargparse.Namespace, name: str) -> dict[str, Any]:
    """Return the nested options that were typed."""
    found = parsed.get(name)
    return {} if found is None else found.as_dict()


def dashes_replaced(argument: str) -> str:
    """
    >>> dashes_replaced("--data-root=a-b"), dashes_replaced("a-b"), dashes_replaced("--")
    ('--data_root=a-b', 'a-b', '--')
    """
    flag, equals, value = argument.partition("=")
    return f"--{flag[2:].replace('-', '_')}{equals}{value}" if flag.startswith("--") else argument


def explained(message: str, parser: jsonargparse.ArgumentParser) -> str:
    """Say what a value must be in words, where jsonargparse says it in types of Python."""
    found = re.match(r'Parser key "([^"]+)": .*?(?:Got value|Given value): (.*)', message)
    action = next((action for action in parser._actions if found and action.dest == found[1]), None)
    if found is None or action is None:
        return message
    name = action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest)
    return f"{name} must be {in_words(getattr(action, '_typehint', action.type))}: got {found[2]}"


def build_parser(command: str, summary: str, declare: Callable[[Any], None]) -> jsonargparse.ArgumentParser:
    try:
        import jsonargparse
    except ImportError as problem:
        raise MissingExtraError.naming("jsonargparse", "train", f"geq {command}") from problem

    class InWords(jsonargparse.DefaultHelpFormatter):
        """Help with what a value must be and its default in words."""

        def _expand_help(self, action: Any) -> str:
            return with_value(action)

    parser = jsonargparse.ArgumentParser(
        prog=f"geq {command}",
        description=summary,
        epilog=SPELLING,
        formatter_class=InWords,
        exit_on_error=False,
        allow_abbrev=False,
        print_config=None,
    )
    declare(parser)
    return parser


def with_value(action: Any) -> str:
    """Return the help of an option, what its value must be, and its default."""
    kind, default = in_words(getattr(action, "_typehint", action.type or Any)), action.default
    if isinstance(default, (tuple, list)):
        default = f"[{', '.join(map(str, default))}]" if default else None
    elif isinstance(default, bool):
        default = str(default).lower() if kind else None
    shown = [
        *([kind] if kind not in ("", "text") else []),
        *([f"default: {default}"] if default not in (None, "", "==SUPPRESS==") else []),
    ]
    return f"{action.help or ''} ({'; '.join(shown)})".strip() if shown else action.help or ""


def add_json(parser: Any) -> None:
    """``--json``: the output is one JSON document, and what else there is to say goes to the error stream."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables, for scripts")


def add_quiet(parser: Any) -> None:
    """``--quiet``, for commands that write files: their exit status says how it went."""
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")


def add_dataset_options(parser: Any) -> None:
    """``--data.folder`` and the like: the options of a dataset."""
    from docstring_parser import parse as parse_docstring

    group = parser.add_argument_group("options of the dataset")
    help_of = {found.arg_name: found.description for found in parse_docstring(DatasetOptions.__doc__).params}
    for item in fields(DatasetOptions):
        group.add_argument(
            f"--data.{item.name}",
            dest=f"data_override.{item.name}",
            metavar=item.name.upper(),
            type=field_types(DatasetOptions)[item.name],
            default=item.default,
            help=help_of[item.name],
        )


def add_data(parser: Any) -> None:
    """Add the dataset of a command on a trained network, which overrides the run's own."""
    parser.add_argument(
        "--data",
        type=str | None,
        default=None,
        help="dataset, or a folder of images; the default is the run's own",
    )
    parser.add_argument("--data_root", type=str | None, default=None, help="folder of the datasets")
    add_dataset_options(parser)


def chosen_data(options: TrainOptions, asked: Any) -> TrainOptions:
    """Return the options of a run with what ``asked`` changes of its data."""
    from geq.training.photo_folder_options import is_folder, with_images
    from geq.training.train_options import overlaid

    before = {"data": options.data, "data_override": options.data_override}
    given: dict[str, Any] = {"data_override": nested(asked, "data_override")}
    if asked.get("data") is not None:
        given["data"] = IMAGE_FOLDER if is_folder(asked.data) else asked.data
    chosen = overlaid(before, given)
    options = replace(
        options, data=chosen["data"], data_override=chosen["data_override"], data_root=asked.data_root
    )
    return with_images(options, asked.data) if is_folder(asked.get("data") or "") else options


def add_inference(parser: Any) -> None:
    """Add the options of sliding-window segmentation, which override those of the run."""
    own = "; the default is the run's own"
    parser.add_argument(
        "--inference",
        type=Literal["full", "sliding"] | None,
        default=None,
        help=f"segmentation: on the full image or by a sliding window{own}",
    )
    parser.add_argument(
        "--window",
        type=tuple[int, int] | None,
        default=None,
        help=f"height and width of the window, as '[96, 128]'{own}",
    )
    parser.add_argument(
        "--overlap",
        type=float | None,
        default=None,
        help=f"share by which neighbouring windows overlap{own}",
    )


def chosen_inference(options: TrainOptions, asked: Any) -> TrainOptions:
    """The options of a run with what ``asked`` changes of its inference."""
    return replace(
        options,
        inference=asked.inference or options.inference,
        window=options.window if asked.window is None else tuple(asked.window),
        overlap=options.overlap if asked.overlap is None else asked.overlap,
    )
