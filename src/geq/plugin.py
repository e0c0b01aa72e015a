"""Extensions by other packages, from entry points: ``geq.commands``, ``geq.models`` and ``geq.bounds``."""

from __future__ import annotations

import os
import sys
from functools import cache


@cache
def entry_points(group: str) -> dict[str, str]:
    """Name -> "module" or "module:attribute", of every installed package; the first on the path wins.

    The files are read directly: to import ``importlib.metadata`` takes longer than all of ``geq --help``.
    """
    found: dict[str, str] = {}
    for folder in dict.fromkeys(sys.path):
        try:
            names = sorted(name for name in os.listdir(folder or ".") if name.endswith(".dist-info"))
        except OSError:
            continue
        for name in names:
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8") as file:
                    text = file.read()
            except (OSError, ValueError):
                continue
            for key, value in section(text, group).items():
                found.setdefault(key, value)
    return found


def section(text: str, group: str) -> dict[str, str]:
    """The entries of one group of an ``entry_points.txt``.

    >>> section("[console_scripts]\\na = b:c\\n[geq.models]\\nplain_ = other.models", "geq.models")
    {'plain_': 'other.models'}
    """
    found: dict[str, str] = {}
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line == f"[{group}]"
        elif inside and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found[name.strip()] = value.split("[")[0].strip()
    return found
