"""The notebooks run from top to bottom, print what they show, and stay small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import notebooks

ROOT = Path(__file__).resolve().parents[2]
PATHS = sorted((ROOT / "examples").glob("*.ipynb"))
NAMES = [path.name for path in PATHS]


def test_there_are_notebooks() -> None:
    assert NAMES == ["first_equilibrium.ipynb", "what_a_certificate_says.ipynb", "your_own_energy.ipynb"]


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_notebook_prints_what_it_shows(path: Path) -> None:
    """``python tests/notebooks.py examples/*.ipynb`` records the outputs again."""
    cells = notebooks.code_cells(notebooks.read(path))
    shown = [cell["outputs"] for cell in cells]
    made = notebooks.run(path)
    assert any(notebooks.printed_text(one) for one in made)
    assert sum(len(notebooks.pictures(one)) for one in made) >= 1
    for cell, before, after in zip(cells, shown, made, strict=True):
        expected, found = (
            notebooks.comparable(cell, notebooks.printed_text(outputs)) for outputs in (before, after)
        )
        assert found == expected, notebooks.source(cell)
        assert len(notebooks.pictures(before)) == len(notebooks.pictures(after))


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_notebook_is_small_and_well_formed(path: Path) -> None:
    assert path.stat().st_size < 60_000
    notebook = notebooks.read(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in notebook["cells"]]
    assert len(set(names)) == len(names)
    assert notebook["cells"][0]["cell_type"] == "markdown"
    assert notebooks.source(notebook["cells"][0]).startswith("# ")
    for number, cell in enumerate(notebooks.code_cells(notebook), 1):
        assert cell["execution_count"] == number
        for picture in notebooks.pictures(cell["outputs"]):
            assert picture.startswith(b"\x89PNG")


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_links_of_a_notebook_lead_somewhere(path: Path) -> None:
    text = "\n".join(
        notebooks.source(cell) for cell in notebooks.read(path)["cells"] if cell["cell_type"] == "markdown"
    )
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (path.parent / target).exists(), target
