"""The documentation speaks of what is there: classes of the equations, public names, commands, options."""

from __future__ import annotations

import re
import shlex
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import geq
from geq.cli import main, summaries

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(geq [^`\n]+)`")
STARTERS = ("srun", "torchrun")


def value_of(path: str) -> object:
    """Return the object of a dotted path: the longest part that is a module, then attributes."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):  # as the site reads it: a module hides a function of its name
        try:
            found: object = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            found = getattr(found, name)
        return found
    raise AssertionError(f"{path} is nowhere")


def equation_rows() -> list[str]:
    lines = (DOCS / "mathematics.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    headers = {lines[i - 1] for i, line in enumerate(lines) if line.startswith("|---")}
    return [row for row in rows if row not in headers]


def test_there_are_equations() -> None:
    assert len(equation_rows()) > 40


@pytest.mark.parametrize("row", equation_rows())
def test_equation_names_its_class(row: str) -> None:
    last = row.strip("| ").rsplit(" | ", 1)[-1]
    link = re.fullmatch(r"\[`(\w+)`\]\(api/(\w+)\.md#([\w.]+)\)", last)
    assert link, f"no class stands in {row}"
    shown, page, path = link.groups()
    assert getattr(value_of(path), "__name__", None) == shown
    assert f"::: {path}\n" in (DOCS / "api" / f"{page}.md").read_text(encoding="utf-8")


def entries() -> list[str]:
    return [
        name
        for page in sorted((DOCS / "api").glob("*.md"))
        for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]


@pytest.mark.parametrize("name", sorted({*geq.__all__} - {*geq.NAMESPACES, "__version__"}))
def test_public_name_has_an_entry(name: str) -> None:
    assert any(value_of(entry) is getattr(geq, name) for entry in entries() if entry.endswith(f".{name}"))


@pytest.mark.parametrize("namespace", geq.NAMESPACES)
def test_namespace_is_listed_and_has_entries(namespace: str) -> None:
    assert f"| `geq.{namespace}` |" in (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    assert any(entry.startswith(f"geq.{namespace}.") for entry in entries())


@pytest.mark.parametrize("namespace", ["kernels", "penalties", "operators", "constraints", "regularizers"])
def test_classes_of_a_namespace_have_entries(namespace: str) -> None:
    module = import_module(f"geq.{namespace}")
    classes = {
        f"geq.{namespace}.{name}" for name in module.__all__ if isinstance(getattr(module, name), type)
    }
    assert classes <= set(entries())


@pytest.mark.parametrize("entry", entries())
def test_entry_exists_and_is_listed_once(entry: str) -> None:
    value_of(entry)
    assert entries().count(entry) == 1


def commands_in(text: str) -> list[str]:
    """Every call of geq that a page shows, on one line each and without comments."""
    found = []
    for language, block in FENCED.findall(text):
        if language in ("python", "py", "text"):
            continue
        for line in block.replace("\\\n", " ").splitlines():
            words = line.split(" #")[0].strip()
            if words.startswith(("geq ", *STARTERS)):
                found.append(words[words.index("geq ") :])
    return found + INLINE.findall(FENCED.sub("", text))


def calls() -> list[tuple[str, str]]:
    return sorted(
        {
            (str(page.relative_to(ROOT)), call)
            for page in PAGES
            for call in commands_in(page.read_text(encoding="utf-8"))
        }
    )


@cache
def help_of(command: tuple[str, ...]) -> str:
    import contextlib
    import io

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*command, "--help"])
    return printed.getvalue()


def test_there_are_commands() -> None:
    assert len(calls()) > 40


@pytest.mark.parametrize(("page", "call"), calls())
def test_command_is_there_with_its_options(page: str, call: str) -> None:
    words = shlex.split(call.replace("…", " "))[1:]
    name = words[0] if words else ""
    if name in ("COMMAND", "--help", "--version"):
        return
    assert name in summaries(), f"{page} shows 'geq {name}'"
    command = (name, words[1]) if name == "data" and len(words) > 1 else (name,)
    known = {flag.rstrip(".").replace("-", "_") for flag in re.findall(r"--[a-z][\w.-]*", help_of(command))}
    for word in words[1:]:
        if word.startswith("--"):
            flag = word.split("=")[0].replace("-", "_")
            assert flag in known, f"{page} shows {word} for geq {name}"
