"""The public names, recorded: adding or removing one is a decision, made here."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import json

import pytest
import torch

import geq
from architecture.surface import RECORD, public, surface


def test_the_surface_is_the_recorded_one() -> None:
    """A difference is a decision: tests/architecture/surface.py says how it is recorded."""
    recorded, found = json.loads(RECORD.read_text()), surface()
    assert sorted(found["python"]) == sorted(recorded["python"])
    assert sorted(found["commands"]) == sorted(recorded["commands"])
    for part in ("python", "commands"):
        for name, described in found[part].items():
            assert described == recorded[part][name], name


PUBLIC = public()
FLAT = sorted(geq._MODULE_OF)


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - {"__version__"}))
def test_every_name_is_there_and_documented(name: str) -> None:
    value = PUBLIC[name]
    assert inspect.getdoc(value), f"{name} has no docstring"
    own = value.__doc__ or ""
    assert own.strip(), f"{name} only inherits its docstring"
    assert not own.startswith(f"{name.rpartition('.')[2]}("), (
        f"{name} has only the docstring that dataclass made"
    )


@pytest.mark.parametrize("name", FLAT)
def test_names_are_the_same_object_in_their_home(name: str) -> None:
    home = importlib.import_module(geq._MODULE_OF[name])
    assert getattr(home, name) is getattr(geq, name)


def test_unknown_name_gives_the_nearest() -> None:
    with pytest.raises(AttributeError, match="did you mean 'Equilibrium'"):
        geq.Equilibrim  # noqa: B018
    assert not hasattr(geq, "utils")


def test_dir_lists_the_public_names() -> None:
    assert set(geq.__all__) <= set(dir(geq))


def test_star_import_gives_exactly_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from geq import *", namespace)
    assert sorted(namespace.keys() - {"__builtins__"}) == sorted(geq.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_no_name_shadows_one_of_torch(name: str) -> None:
    assert not hasattr(torch.nn, name.rpartition(".")[2])


def test_the_version_is_that_of_the_package() -> None:
    assert geq.__version__ == importlib.metadata.version("geq")
