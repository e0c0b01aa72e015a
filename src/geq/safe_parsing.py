"""Safe parsing and printing of untrusted text, and what JSON can hold."""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Mapping
from functools import cache
from typing import Any

LARGEST_YAML = 1 << 18
"""Characters of a YAML file; one with every option of a run has two thousand."""
DEEPEST = 20
"""Lists in lists of a YAML file, with what is in the innermost; options have lists of numbers."""


def parse_json(text: str) -> Any:
    r"""Parse a JSON document; any defect of it is a ``ValueError``.

    Python's own reader raises a ``RecursionError`` for nesting that is too deep, and takes halves of
    characters (``"\ud800"``), which can be written into no file afterwards.

    >>> parse_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    """
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def finite(value: Any) -> Any:
    """Return a value as JSON can hold it: numbers that are not finite become None, tuples lists.

    >>> finite({"a": (1.0, math.inf)})
    {'a': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def parse_yaml(text: str) -> Any:
    """Parse a YAML document of plain data; any defect of it is a ``ValueError``.

    A file of options needs no references from one place to another, and with them a page of text can stand
    for more than a computer holds.

    >>> parse_yaml("epochs: 3")
    {'epochs': 3}
    >>> parse_yaml("a: &x [1]\\nb: [*x, *x]")
    Traceback (most recent call last):
    ValueError: it refers to another place in itself (*x), which options do not need
    """
    import yaml

    if len(text) > LARGEST_YAML:
        raise ValueError(
            f"it has {len(text)} characters, more than the {LARGEST_YAML} of any file of options"
        )
    try:
        return yaml.load(text, _plain_loader())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise
    except Exception as problem:  # beside its own errors, PyYAML lets out those of what it builds
        raise ValueError(" ".join(str(problem).split())) from problem


@cache
def _plain_loader() -> Any:
    """PyYAML's loader of plain data, without references and depths."""
    import yaml

    class PlainLoader(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                anchor = self.peek_event().anchor
                raise ValueError(
                    f"it refers to another place in itself (*{anchor}), which options do not need"
                )
            self.depth += 1
            if self.depth > DEEPEST:  # PyYAML's time grows with the square of it
                raise ValueError("it is nested too deeply")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return PlainLoader


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 3, 120, 120, 40


def short(value: Any) -> str:
    """A value of a file for a message: as Python writes it, but never long.

    >>> short("x" * 1000) == repr("x" * 1000), len(short("x" * 1000)) <= 120
    (False, True)
    """
    try:
        return _SHORT.repr(value)
    except ValueError:  # Python does not write out numbers of thousands of digits
        return "a very large number"


CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Characters that neither HTML nor XML may hold."""


def printable(text: str) -> str:
    """Replace control characters.

    >>> printable("a\\x00b")
    'a\ufffdb'
    """
    return CONTROL.sub("\ufffd", text)


def identifier(text: str) -> str:
    """``text`` as the name of an anchor or a file: lower-case letters, digits and hyphens.

    >>> identifier("GEQ table 1a: “CIFAR-10”"), identifier("../<x>"), identifier("…")
    ('geq-table-1a-cifar-10', 'x', 'unnamed')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80] or "unnamed"
