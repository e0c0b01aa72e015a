"""Text is read and written in an encoding that the code names, never in that of the user."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import geq
import geq_demo
import geq_papers

SOURCES = sorted(
    path for package in (geq, geq_demo, geq_papers) for path in Path(package.__file__).parent.rglob("*.py")
)
TEXT = {"read_text": 0, "write_text": 1}
"""Methods that read or write text, and the place of the encoding among their arguments."""


def mode_of(call: ast.Call, place: int) -> str:
    named = next((word.value for word in call.keywords if word.arg == "mode"), None)
    value = named or (call.args[place] if len(call.args) > place else None)
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else "r"


def is_careless(call: ast.Call) -> bool:
    """Return whether a call handles text without naming its encoding."""
    words = {word.arg for word in call.keywords}
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    owner = getattr(getattr(call.func, "value", None), "id", "")
    if "encoding" in words:
        return False
    if name in TEXT:
        return len(call.args) <= TEXT[name]
    if name in ("run", "Popen", "check_output") and owner == "subprocess":
        return bool(words & {"text", "universal_newlines"})
    if name == "fdopen" or (name == "open" and isinstance(call.func, ast.Name)):
        return "b" not in mode_of(call, 1)
    # A method open() without a mode may be of an archive or a picture; with one for text it is of a path.
    return (
        name == "open"
        and owner not in ("os", "Image", "gzip", "tarfile")
        and mode_of(call, 0) in ("w", "a", "x")
    )


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_the_encoding_of_text_is_named(path: Path) -> None:
    calls = [
        node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
    ]
    assert [call.lineno for call in calls if is_careless(call)] == []


@pytest.mark.parametrize(
    "text, careless",
    [
        ("p.read_text()", True),
        ("p.read_text('utf-8')", False),
        ("p.read_text(errors='replace')", True),
        ("p.write_text(x)", True),
        ("p.write_text(x, encoding='utf-8')", False),
        ("open(p)", True),
        ("open(p, 'rb')", False),
        ("os.fdopen(1, 'w')", True),
        ("os.fdopen(1, 'wb')", False),
        ("p.open('a')", True),
        ("p.open('rb')", False),
        ("os.open(p, os.O_RDONLY)", False),
        ("subprocess.run(c, text=True)", True),
        ("subprocess.run(c, encoding='utf-8')", False),
    ],
)
def test_this_test_sees_what_it_should(text: str, careless: bool) -> None:
    (call,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    assert is_careless(call) == careless
