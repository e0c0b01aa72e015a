"""Networks and their cells answer for themselves: nothing outside of ``geq.model`` names the class of one."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pathlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from geq.cells import Cell
from geq.model.network import Network

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "src" / "geq"
OUTSIDE = sorted(path for path in PACKAGE.rglob("*.py") if "model" not in path.relative_to(PACKAGE).parts[:1])


def is_concrete(value: Any) -> bool:
    """Return whether this is a class of a network or cell of ``geq.model``, or a module that defines one."""
    if isinstance(value, ModuleType):
        return value.__name__.startswith("geq.model.") and any(
            is_concrete(member) and member.__module__ == value.__name__ for member in vars(value).values()
        )
    return (
        inspect.isclass(value)
        and issubclass(value, (Network, Cell))
        and value is not Network
        and value.__module__.startswith("geq.model.")
    )


def imported(module: str, name: str) -> Any:
    found = importlib.import_module(module)
    if not hasattr(found, name) and importlib.util.find_spec(f"{module}.{name}"):
        return importlib.import_module(f"{module}.{name}")
    return getattr(found, name)


def classes_named(source: str) -> Iterator[str]:
    """The imports of concrete networks and cells, by which a class could be asked for."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[:2] == ["geq", "model"]:
            assert node.module is not None
            yield from (a.name for a in node.names if is_concrete(imported(node.module, a.name)))
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name.startswith("geq.model.")]
            yield from (name for name in names if is_concrete(importlib.import_module(name)))


@pytest.mark.parametrize("path", OUTSIDE, ids=[str(path.relative_to(PACKAGE)) for path in OUTSIDE])
def test_no_class_of_a_network_is_asked_for(path: pathlib.Path) -> None:
    """A question to a network is a method of Network, one to a cell a method of Cell."""
    assert list(classes_named(path.read_text())) == []


@pytest.mark.parametrize(
    "source",
    [
        "from geq.model.mondeq import Mon",
        "from geq.model.mondeq_cell import MonotoneCell",
        "from geq.model.segmenter import Segmenter",
        "from geq.model import mdeq",
        "import geq.model.branch_network",
    ],
)
def test_every_way_of_importing_one_is_found(source: str) -> None:
    assert len(list(classes_named(source))) == 1
    assert list(classes_named("from geq.model.network import Network")) == []
