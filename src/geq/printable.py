"""Text of untrusted records, as a page, an anchor or the name of a file can hold it."""

from __future__ import annotations

import re

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
