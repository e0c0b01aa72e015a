"""Public surface: signatures of the public names, commands with their options.

    python tests/architecture/surface.py

records it again after an intended change; the difference of ``public_surface.json`` is then part of the
change, and what it takes away needs an entry in the changelog (docs/stability.md).
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("public_surface.json")


def public() -> dict[str, Any]:
    """Return the public names: those of ``geq``, and after a dot those of its namespaces."""
    import geq

    found: dict[str, Any] = {}
    for name in geq.__all__:
        value = getattr(geq, name)
        if not inspect.ismodule(value):
            found[name] = value
            continue
        for own in getattr(value, "__all__", None) or defined(value):
            found[f"{name}.{own}"] = getattr(value, own)
    return found


def defined(module: Any) -> list[str]:
    """Return the classes that a module of one file defines."""
    return sorted(
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    )


def surface() -> dict[str, Any]:
    from geq.command.completion_words import whole_syntax

    return {
        "python": {name: described(value) for name, value in public().items()},
        "commands": {
            syntax.name: sorted(option.flag for option in syntax.options) for syntax in whole_syntax()
        },
    }


def described(value: Any) -> Any:
    if not inspect.isclass(value):
        return signature(value)
    members = {
        name: signature(member) if inspect.isroutine(member) else "attribute"
        for base in reversed(value.__mro__)
        if base.__module__.split(".")[0] == "geq"
        for name, member in vars(base).items()
        if not name.startswith("_") and name != "annotations"
    }
    return {"call": signature(value), **dict(sorted(members.items()))}


def signature(value: Any) -> str:
    """Names, order and defaults; types are left out, because a checker may rewrite them at run time."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return "…"
    return ", ".join(map(parameter, parameters))


def parameter(one: inspect.Parameter) -> str:
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(one.kind, "")
    only = " (by name)" if one.kind is inspect.Parameter.KEYWORD_ONLY else ""
    default = "" if one.default is one.empty else f" = {re.sub(' at 0x[0-9a-f]+', '', repr(one.default))}"
    return f"{star}{one.name}{default}{only}"


if __name__ == "__main__":
    RECORD.write_text(json.dumps(surface(), indent=1, ensure_ascii=False) + "\n")
    print(RECORD)
