"""Docstrings as the site shows them: the roles of Sphinx become links, and doctests become code."""

from __future__ import annotations

import re
from typing import Any

import griffe

import geq

ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`(~?)([^`]+)`")
DOCTEST = re.compile(r"^([ ]*)>>> .*(?:\n(?![ ]*$).*)*", re.MULTILINE)


def linked(role: re.Match[str]) -> str:
    """A link where the name has an entry on the site, and code elsewhere; ``~`` shows the last part alone."""
    short, name = role.groups()
    first, _, rest = name.partition(".")
    home = geq._MODULE_OF.get(rest.split(".")[0]) if first == "geq" else None
    identifier = f"{home}.{rest}" if home else name
    shown = name.rsplit(".", 1)[-1] if short else name
    return f'<autoref identifier="{identifier}" optional><code>{shown}</code></autoref>'


def fenced(example: re.Match[str]) -> str:
    indent = example[1]
    return f"{indent}```pycon\n{example[0]}\n{indent}```"


def marked_up(text: str) -> str:
    return DOCTEST.sub(fenced, ROLE.sub(linked, text))


class DocstringMarkup(griffe.Extension):
    """Applied by mkdocstrings to everything that it reads."""

    def on_instance(self, *, obj: griffe.Object, **rest: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = marked_up(obj.docstring.value)
