"""HTML elements in which every text is escaped that is not markup already."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from markupsafe import Markup
from markupsafe import escape as escaped

from geq.errors import InputError
from geq.printable import printable

EMPTY = Markup("")
Content = str | Markup | Iterable["str | Markup"]


def escape(text: str) -> Markup:
    """
    >>> escape("<b>&")
    Markup('&lt;b&gt;&amp;')
    """
    return text if isinstance(text, Markup) else escaped(printable(text))


def join(content: Content, between: str = "") -> Markup:
    """Return the pieces one after the other."""
    pieces = [content] if isinstance(content, str) else content
    return escape(between).join(escape(piece) for piece in pieces)


def element(
    name: str, content: Content = "", attributes: Mapping[str, str | int | float | None] | None = None
) -> Markup:
    """Return ``<name attributes>content</name>``; an attribute that is None is left out.

    >>> element("a", "1 < 2", {"href": "#x", "title": None})
    Markup('<a href="#x">1 &lt; 2</a>')
    """
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9]*", name):
        raise InputError(f"an element needs a name of letters and digits: got {name!r}")
    given = {key: escape(str(value)) for key, value in (attributes or {}).items() if value is not None}
    written = Markup("").join(Markup(' {}="{}"').format(key, value) for key, value in given.items())
    return Markup("<{0}{1}>{2}</{0}>").format(name, written, join(content))
