"""HTML and SVG as text, in which nothing that was not written here can become markup.

A :class:`Markup` is text that is markup already; every other string is escaped when it is put into one.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping

from geq.error import InputError

VOID = frozenset({"br", "hr", "img", "meta", "col"})
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Characters that neither HTML nor XML may hold."""


class Markup(str):
    """Text that may be put into a page as it is."""

    __slots__ = ()


EMPTY = Markup("")
Content = str | Markup | Iterable["str | Markup"]


def escape(text: str) -> Markup:
    """
    >>> escape('<b title="x">&')
    '&lt;b title=&quot;x&quot;&gt;&amp;'
    """
    return text if isinstance(text, Markup) else Markup(html.escape(CONTROL.sub("\ufffd", text)))


def join(content: Content, between: str = "") -> Markup:
    """The pieces one after the other, each escaped if it is not markup."""
    pieces = [content] if isinstance(content, str) else content
    return Markup(escape(between).join(escape(piece) for piece in pieces))


def element(
    name: str, content: Content = "", attributes: Mapping[str, str | int | float | None] | None = None
) -> Markup:
    """``<name attributes>content</name>``; an attribute that is None is left out.

    >>> element("a", "1 < 2", {"href": "#x", "title": None})
    '<a href="#x">1 &lt; 2</a>'
    """
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9]*", name):
        raise InputError(f"an element needs a name of letters and digits: got {name!r}")
    written = "".join(
        f' {key}="{escape(str(value))}"' for key, value in (attributes or {}).items() if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(content)}</{name}>")


def identifier(text: str) -> str:
    """``text`` as the name of an anchor or a file: lower-case letters, digits and hyphens.

    >>> identifier("GEQ table 1a: “CIFAR-10”"), identifier("../<x>"), identifier("…")
    ('geq-table-1a-cifar-10', 'x', 'unnamed')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80] or "unnamed"
