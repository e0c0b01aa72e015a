"""Syntax of ``geq`` for shells: the options of every command and the words that they take.

It is read off the parsers of the commands themselves, so that nothing is told twice.
"""

from __future__ import annotations

import types
from argparse import SUPPRESS
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from geq.cli import command_module, summaries
from geq.command.argument_parser import build_parser

RUN = ("run", "resume", "against", "reference", "beside")
"""Names of options and arguments that take a run."""


@dataclass(frozen=True)
class Value:
    """Kind of value of an option: ``words``, the name of a run, or the shell's own proposals."""

    kind: Literal["words", "run", "free"] = "free"
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Option:
    """``value`` is None for a switch."""

    flag: str
    summary: str
    value: Value | None


@dataclass(frozen=True)
class Syntax:
    """A command, or an action of one ("data list"); ``repeats`` says that there may be several of the last
    argument.
    """

    name: str
    options: tuple[Option, ...] = ()
    arguments: tuple[Value, ...] = ()
    repeats: bool = False

    @property
    def valued(self) -> tuple[str, ...]:
        """Return the options that take a value."""
        return tuple(option.flag for option in self.options if option.value is not None)


def syntax_of(name: str) -> list[Syntax]:
    """Of one command, with an entry for each of its actions if it has any."""
    module = command_module(name)
    WORDS.update({(name, option): words for option, words in getattr(module, "WORDS", {}).items()})
    actions: dict[str, Callable[[Any], None]] = getattr(module, "DECLARED", None) or {"": module.declare}
    return [described(f"{name} {action}".strip(), declare) for action, declare in actions.items()]


def whole_syntax() -> list[Syntax]:
    """Of all commands; one whose extra is not installed is left without options."""
    found: list[Syntax] = []
    for name in summaries():
        try:
            found += syntax_of(name)
        except ImportError:
            found.append(Syntax(name))
    return found


def described(name: str, declare: Callable[[Any], None]) -> Syntax:
    options: list[Option] = []
    arguments: list[Value] = []
    repeats = False
    for action in build_parser(name, "", declare)._actions:
        for flag in action.option_strings:
            if flag.startswith("--") and flag[-1] != "+":  # that adds to a list
                value = None if action.nargs == 0 else value_of(name, flag[2:], action)
                options.append(Option(flag, one_line(action.help), value))
        if not action.option_strings:
            arguments.append(value_of(name, action.dest, action))
            repeats = action.nargs in ("+", "*")
    return Syntax(name, tuple(options), tuple(arguments), repeats)


def one_line(text: str | None) -> str:
    """The help of an option in a few words; what jsonargparse adds in brackets is left out.

    >>> one_line("number of seeds; the default is 5 (type: int, default: 5)")
    'number of seeds'
    """
    if not text or text == SUPPRESS:
        return ""
    short = " ".join(text.split()).split(" (type:")[0].split(";")[0].split(". ")[0]
    return short if len(short) <= 72 else f"{short[:71]}…"


def value_of(command: str, name: str, action: Any) -> Value:
    for key in ((command, name), ("", name)):
        if key in WORDS:
            found = WORDS[key]
            return Value("words", tuple(found() if callable(found) else found))
    if name in RUN or (command, name) == ("compare", "names"):
        return Value("run")
    hint = getattr(action, "_typehint", action.type)
    words = tuple(map(str, action.choices or ())) or tuple(dict.fromkeys(choices_in(hint)))
    return Value("words", words) if words else Value()


def choices_in(hint: Any) -> Iterable[str]:
    """
    >>> list(choices_in(Literal["a", "b"] | None)), list(choices_in(bool)), list(choices_in(int))
    (['a', 'b'], ['true', 'false'], [])
    """
    if hint is bool:
        yield from ("true", "false")
    elif get_origin(hint) is Literal:
        yield from (str(choice) for choice in get_args(hint))
    elif get_origin(hint) in (Union, types.UnionType):
        for part in get_args(hint):
            yield from choices_in(part)


def models() -> Iterable[str]:
    from geq.model.model_registry import list_models

    return list_models()


def datasets() -> Iterable[str]:
    from geq.data.dataset_options import SUMMARIES

    return SUMMARIES


def fetched() -> Iterable[str]:
    from geq.data.download_sources import SOURCES

    return SOURCES


def corruptions() -> Iterable[str]:
    from geq.data.corruption.corruption_registry import corruption_names

    return corruption_names()


def presets() -> Iterable[str]:
    from geq.training.preset import list_presets

    return list_presets()


def parts() -> Iterable[str]:
    from geq.analysis.settings import GROUPS, PARTS

    return (*PARTS, *GROUPS)


WORDS: dict[tuple[str, str], Callable[[], Iterable[str]] | Iterable[str]] = {
    ("", "model"): models,
    ("", "data"): datasets,
    ("", "preset"): presets,
    ("show", "name"): models,
    ("analyze", "ood"): datasets,
    ("analyze", "only"): parts,
    ("analyze", "corruptions"): corruptions,
    ("data check", "names"): datasets,
    ("data fetch", "names"): fetched,
    ("data corrupt", "names"): corruptions,
}
"""Command (or "" for all) and name -> the words for it, where the parser takes any string. A command of
another package has its own table ``WORDS``, option -> words."""
