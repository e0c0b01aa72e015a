"""A name means one thing: classes are named once in the whole tree, files by what is in them."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = [
    path
    for folder in ("src/geq", "papers/geq_papers", "demo/geq_demo", "stress")
    for path in (ROOT / folder).rglob("*.py")
]
VAGUE = {"utils", "util", "misc", "common", "helpers", "helper", "tools"}


def homonyms(sources: dict[str, str]) -> dict[str, list[str]]:
    """Return the classes that several files define: name -> files."""
    found = defaultdict(list)
    for place, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(place)
    return {name: places for name, places in found.items() if len(places) > 1}


def test_each_class_has_a_name_of_its_own() -> None:
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in FILES}
    assert len(sources) > 300
    assert homonyms(sources) == {}


def test_homonyms_are_found() -> None:
    sources = {"a.py": "class Cell: ...", "b.py": "class Cell: ...\nclass Row: ..."}
    assert homonyms(sources) == {"Cell": ["a.py", "b.py"]}


def test_no_file_is_named_for_nothing() -> None:
    assert {path.stem for path in FILES} & VAGUE == set()
