"""Complete configuration of a network: a frozen dataclass with an exact JSON form.

A field of a configuration may be a number, a string, a boolean, ``None``, a tuple of such, or another frozen
dataclass (a solver, a branch). A nested dataclass is written with its class name, and is only ever read back
as the annotated class or one of its subclasses: a file cannot name an arbitrary class.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from geq.errors import CheckpointError, OptionError, unknown_name
from geq.safe_parsing import short

CLASS_KEY = "class"

Differentiation = Literal["implicit", "phantom", "jacobian_free", "unrolled", "averaging"]
Regulariser = Literal["none", "decay", "sparsity", "incay", "decorrelation", "hsic", "hsic_fourier"]

STEPPED = ("phantom", "unrolled", "averaging")
"""Gradients that have a number of steps."""

ADDED_LATER = {"added_later": True}
"""Metadata of a field that files of earlier versions lack: its default is what these versions did, and never
changes."""


_FIELD_TYPES: dict[type, Mapping[str, Any]] = {}


def field_types(kind: type) -> Mapping[str, Any]:
    """The type of each field of a dataclass, cached: Python recompiles the annotations on each call.

    >>> field_types(NetworkConfig)["num_classes"]
    <class 'int'>
    """
    if kind not in _FIELD_TYPES:
        _FIELD_TYPES[kind] = types.MappingProxyType(get_type_hints(kind))
    return _FIELD_TYPES[kind]


@dataclass(frozen=True)
class NetworkConfig:
    """The two facts that every network has; each family adds its own fields.

    A field annotated with ``Literal[...]`` is checked here against its choices.

    Args:
        input_shape: channels, height and width of one input image.
        num_classes: number of logits.
    """

    input_shape: tuple[int, int, int]
    num_classes: int = field(default=10, kw_only=True)

    def __post_init__(self) -> None:
        if len(self.input_shape) != 3 or min(self.input_shape) < 1:
            raise OptionError(
                f"input_shape must be (channels, height, width), all positive; got {self.input_shape}"
            )
        if self.num_classes < 1:
            raise OptionError(f"num_classes must be at least 1; got {self.num_classes}")
        for name, kind in field_types(type(self)).items():
            if get_origin(kind) is Literal and getattr(self, name) not in get_args(kind):
                raise OptionError(
                    f"{name} must be one of {list(get_args(kind))}; got {getattr(self, name)!r}"
                )


Config = TypeVar("Config", bound=NetworkConfig)


def override(config: Config, options: Mapping[str, Any]) -> Config:
    """``config`` with some fields replaced; a misspelt one is an error that names the nearest field.

    >>> override(NetworkConfig((1, 8, 8)), {"num_classes": 3}).num_classes
    3
    """
    known = [item.name for item in dataclasses.fields(config) if item.init]
    for name in options:
        if name not in known:
            raise unknown_name(f"option of {type(config).__name__}", name, known)
    # Lists come from command lines and JSON; the configuration stays hashable and compares by value.
    return dataclasses.replace(config, **{name: _frozen(value) for name, value in options.items()})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def to_json(value: Any) -> Any:
    """The JSON form of a configuration (or of a part of one)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            item.name: to_json(getattr(value, item.name)) for item in dataclasses.fields(value) if item.init
        }
        return {CLASS_KEY: type(value).__name__, **fields}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise OptionError(
        f"a configuration holds numbers, strings, tuples and frozen dataclasses; got {type(value).__name__}"
    )


def from_json(expected: Any, value: Any, where: str = "config") -> Any:
    """Rebuild what :func:`to_json` wrote, checking every value against the annotation ``expected``.

    >>> from_json(NetworkConfig, to_json(NetworkConfig((3, 32, 32))))
    NetworkConfig(input_shape=(3, 32, 32), num_classes=10)
    """
    origin, arguments = get_origin(expected), get_args(expected)
    if origin in (Union, types.UnionType):
        return _from_union(expected, value, where)
    if origin is Literal:
        if value not in arguments:
            raise CheckpointError(f"{where} must be one of {list(arguments)}; got {short(value)}")
        return value
    if origin is tuple or expected is tuple:
        return _from_list(expected, value, where)
    if isinstance(expected, type) and issubclass(expected, Enum):
        if not isinstance(value, str) or value not in expected.__members__:
            raise CheckpointError(
                f"{where} must be one of {sorted(expected.__members__)}; got {short(value)}"
            )
        return expected[value]
    if isinstance(value, dict) and isinstance(expected, type):
        return _from_fields(expected, value, where)
    if expected is Any or _is_plain(expected, value):
        if expected is int and not -(2**63) <= value < 2**63:  # a whole number of a file has any length
            raise CheckpointError(f"{where} must be a whole number of at most 64 bits; got {short(value)}")
        return _as_float(value, where) if expected is float else value
    raise CheckpointError(f"{where} must be {in_words(expected)}; got {short(value)}")


ONE = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a path"}
MANY = {int: "whole numbers", float: "numbers", str: "words"}


def in_words(kind: Any) -> str:
    """Describe a type for people, in help and errors; "" for any value.

    >>> in_words(int | float | Literal["official"]), in_words(tuple[int, int] | None), in_words(list[str])
    ('a number or official', 'a list of 2 whole numbers', 'a list of words')
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"{'one of ' if len(arguments) > 1 else ''}{', '.join(map(str, arguments))}"
    if origin in (Union, types.UnionType):
        dropped = {type(None), *([int] if float in arguments else []), *([Path] if str in arguments else [])}
        return " or ".join(in_words(part) for part in arguments if part not in dropped)
    if origin in (tuple, list) or kind in (tuple, list):
        number = f"{len(arguments)} " if origin is tuple and Ellipsis not in arguments else ""
        return f"a list of {number}{MANY.get(arguments[0], 'values')}" if arguments else "a list"
    return "" if kind is Any else ONE.get(kind) or f"a {getattr(kind, '__name__', kind)}"


def typed_fields(target: type, values: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Return values for fields of a dataclass with the types of these fields; ``owner`` is for messages.

    >>> typed_fields(NetworkConfig, {"input_shape": [3, 8, 8]}, "a network")
    {'input_shape': (3, 8, 8)}
    """
    hints = field_types(target)
    for name in values:
        if name not in hints:
            raise unknown_name(f"option of {owner}", name, hints)
    try:
        return {name: from_json(hints[name], value, f"{name} of {owner}") for name, value in values.items()}
    except CheckpointError as problem:
        raise OptionError(str(problem)) from problem


def _as_float(value: int | float, where: str) -> float:
    try:
        number = float(value)
    except OverflowError:  # a whole number of a file has any number of digits
        number = math.inf
    if not math.isfinite(number):  # Python reads NaN and Infinity, which JSON does not have
        raise CheckpointError(f"{where} must be a number below 1e308; got {short(value)}")
    return number


def _is_plain(expected: Any, value: Any) -> bool:
    if expected is type(None):
        return value is None
    if isinstance(value, bool):
        return expected is bool
    return expected in (int, float, str) and isinstance(
        value, (int, float) if expected is float else expected
    )


def from_fields(kind: Any, value: Any, where: str) -> Any:
    """Rebuild what :func:`dataclasses.asdict` made of a dataclass: every field is stated, and nothing else.

    >>> from_fields(NetworkConfig, {"input_shape": [1, 8, 8], "num_classes": 2}, "it").num_classes
    2
    """
    outer, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise CheckpointError(f"{where} must be an object; got {short(value)}")
        hints = field_types(kind)
        missing, unknown = [n for n in hints if n not in value], [n for n in value if n not in hints]
        for what, names in (("misses", missing), ("has unknown fields", unknown)):
            if names:
                raise CheckpointError(f"{where} {what}: {', '.join(map(str, names))}")
        return kind(**{name: from_fields(hints[name], value[name], f"{where}: {name}") for name in hints})
    if outer in (list, Sequence) or (outer is tuple and inner[-1] is Ellipsis):
        if not isinstance(value, list):
            raise CheckpointError(f"{where} must be a list; got {short(value)}")
        items = [from_fields(inner[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
        return items if outer is list else tuple(items)
    if outer is dict or outer is Mapping:
        if not isinstance(value, Mapping):
            raise CheckpointError(f"{where} must be an object; got {short(value)}")
        return {name: from_fields(inner[1], item, f"{where}: {name}") for name, item in value.items()}
    return value if kind is Any else from_json(kind, value, where)


def _from_union(expected: Any, value: Any, where: str) -> Any:
    problems = []
    for choice in get_args(expected):
        try:
            return from_json(choice, value, where)
        except CheckpointError as problem:
            problems.append(str(problem))
    if isinstance(value, (dict, list)):
        raise CheckpointError("; or ".join(problems))
    raise CheckpointError(f"{where} must be {in_words(expected)}; got {short(value)}")


def _from_list(expected: Any, value: Any, where: str) -> tuple[Any, ...]:
    arguments = get_args(expected)
    if not isinstance(value, list):
        raise CheckpointError(f"{where} must be {in_words(expected)}; got {short(value)}")
    if not arguments or arguments[-1] is Ellipsis:
        item_types = (arguments[0] if arguments else Any,) * len(value)
    elif len(arguments) != len(value):
        raise CheckpointError(f"{where} must have {len(arguments)} entries; got {len(value)}")
    else:
        item_types = arguments
    return tuple(
        from_json(kind, item, f"{where}[{i}]")
        for i, (kind, item) in enumerate(zip(item_types, value, strict=True))
    )


def _from_fields(expected: type, value: dict[str, Any], where: str) -> Any:
    known = {kind.__name__: kind for kind in _descendants(expected) if dataclasses.is_dataclass(kind)}
    name = value.get(CLASS_KEY)
    if not isinstance(name, str) or name not in known:
        raise CheckpointError(
            f"{where} must be a {' or '.join(sorted(known)) or expected.__name__}; got {short(name)}"
        )
    kind = known[name]
    hints = field_types(kind)
    fields = {item.name: item for item in dataclasses.fields(kind) if item.init}
    given = {key: entry for key, entry in value.items() if key != CLASS_KEY}
    for key in given:
        if key not in fields:
            raise CheckpointError(str(unknown_name(f"field of {where} ({name})", key, fields)))
    missing = [
        key for key, item in fields.items() if key not in given and not item.metadata.get("added_later")
    ]
    if missing:
        # Defaults may change between versions, so a file always states every field.
        raise CheckpointError(f"{where} ({name}) must state every field; missing: {', '.join(missing)}")
    decoded = {key: from_json(hints[key], entry, f"{where}.{key}") for key, entry in given.items()}
    try:
        return kind(**decoded)
    except (ValueError, TypeError, ArithmeticError, LookupError) as problem:  # among them OptionError
        raise CheckpointError(f"{where} ({name}): {problem}") from problem


def _descendants(kind: type) -> list[type]:
    children: list[type] = kind.__subclasses__()
    return [kind, *(found for child in children for found in _descendants(child))]
