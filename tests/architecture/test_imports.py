"""Imports only ever point to the left of the sentence that orders the folders."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "src" / "geq"
PAGE = PACKAGE.parents[1] / "docs" / "architecture.md"

BASE = {"errors", "certificates"}
WEIGHTS = BASE | {"frozen", "operators", "constraints"}
PARTS = WEIGHTS | {"penalties", "regularizers", "kernels", "bandwidth"}
CORE = PARTS | {"cells", "solvers", "gradients", "equilibrium"}
NETWORK = CORE | {"layers", "model", "atomic_io", "number_format", "safe_parsing"}

ALLOWED = {
    "errors": set(),
    "cache_folder": set(),
    "c_code": {"cache_folder"},
    "safe_parsing": set(),
    "atomic_io": {"errors"},
    "number_format": set(),
    "frozen": {"errors"},
    "bandwidth": {"errors"},
    "constraints": {"errors"},
    "certificates": {"constraints"},
    "operators": BASE | {"frozen", "constraints"},
    "penalties": BASE,
    "regularizers": {"errors", "penalties"},
    "kernels": BASE | {"frozen", "bandwidth", "operators", "penalties", "c_code"},
    "cells": BASE | {"kernels", "operators", "penalties", "regularizers"},
    "solvers": {"errors", "operators", "cells", "c_code"},
    "gradients": {"errors", "cells", "solvers"},
    "equilibrium": BASE | {"bandwidth", "operators", "cells", "solvers", "gradients", "torch_compile"},
    "torch_compile": {"equilibrium"},
    "layers": CORE,
    "plugin": set(),
    "model": CORE | {"layers", "atomic_io", "safe_parsing", "plugin"},
    "data": {"errors", "cache_folder", "atomic_io", "safe_parsing"},
    "training": NETWORK | {"data"},
    "analysis": NETWORK | {"data", "training", "plugin", "number_format"},
    "weights": NETWORK | {"data", "training", "analysis"},
    "export": NETWORK | {"data", "training"},
    "sklearn": NETWORK,
    "command": None,  # the commands may use everything
    "cli": {
        "errors",
        "deferred_interrupt",
        "standard_streams",
        "plugin",
    },  # ... but the table of commands loads nothing
    "deferred_interrupt": set(),
    "standard_streams": set(),
    "__init__": {"errors"},
}

ORDER = [
    *(
        "errors",
        "frozen",
        "bandwidth",
        "constraints",
        "certificates",
        "operators",
        "penalties",
        "regularizers",
        "kernels",
    ),
    *("cells", "solvers", "gradients", "equilibrium", "layers", "model", "training", "analysis"),
]
"""The sentence: each of these may import those before it only."""


def part_of(path: pathlib.Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: pathlib.Path) -> set[str]:
    parts = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.ImportFrom)
            and node.level == 0
            and (node.module or "").split(".")[0] == "geq"
        ):
            pieces = (node.module or "").split(".")
            parts |= {pieces[1]} if len(pieces) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{path}: relative import; write the full name")
        elif isinstance(node, ast.Import):
            parts |= {a.name.split(".")[1] for a in node.names if a.name.startswith("geq.")}
    return parts


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(PACKAGE)) for p in FILES])
def test_imports_point_left(path: pathlib.Path) -> None:
    part = part_of(path)
    assert part in ALLOWED, f"{part} has no place in the table of allowed imports"
    allowed = ALLOWED[part]
    if allowed is not None:
        assert imported_parts(path) <= allowed | {part}


def test_the_table_follows_the_order() -> None:
    for place, part in enumerate(ORDER):
        allowed = ALLOWED[part]
        assert allowed is not None
        assert allowed.intersection(ORDER) <= set(ORDER[:place]), f"{part} may import what comes after it"


def test_the_page_shows_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = {part: set(re.findall(r"`(\w+)`", imports)) for part, imports in rows}
    core = [part for part in ORDER if part in CORE and part != "errors"]
    assert list(shown) == core
    for part in core:
        assert shown[part] == (ALLOWED[part] or set()) & CORE - {"errors"}, part


def test_the_page_names_files_that_exist() -> None:
    named = set(re.findall(r"`([\w/]+(?:\.py|/))`", PAGE.read_text(encoding="utf-8")))
    assert len(named) > 10
    roots = (PACKAGE, PACKAGE.parents[1], PACKAGE.parents[1] / "tests")
    assert not [name for name in named if not any((root / name).exists() for root in roots)]


def test_the_picture_names_files_that_exist() -> None:
    picture = (PAGE.parent / "asset" / "architecture.svg").read_text(encoding="utf-8")
    named = re.findall(r'class="file"[^>]*>([^<]+)<', picture)
    assert len(named) > 8
    assert not [name for name in named if not (PACKAGE / name).exists()]


REPOSITORY = PACKAGE.parents[1]


@pytest.mark.parametrize(
    "folder, others",
    [("src/geq", {"geq_papers", "geq_demo"}), ("papers/geq_papers", {"geq_demo"})],
)
def test_no_package_imports_one_that_depends_on_it(folder: str, others: set[str]) -> None:
    files = sorted((REPOSITORY / folder).rglob("*.py"))
    assert files
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative import; write the full name"
                names = [node.module or ""]
            assert not {name.split(".")[0] for name in names} & others, path
        assert not any(f'"{other}.' in path.read_text(encoding="utf-8") for other in others), path


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys; from geq.cli import main; main(['--help']);"
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    assert run(code).splitlines()[-1] == "False False"


HEAVY = "torch lightning torchmetrics gradio sklearn captum matplotlib kornia onnx scipy"
LIGHT = (
    "models",
    "models resnet* --json",
    "reproduce",
    "reproduce --json",
    "report",
    "runs",
    "show no_such_model",
    "train --model no_such_model",
    "train --data no_such_dataset",
    "evaluate no_such_run",
    "predict no_such_run image.png",
    "explain no_such_run",
    "export no_such_run",
    "compare no_such_run other",
    "demo no_such_run",
    "report no_such_folder",
    "reproduce no_such_experiment",
    "bench no_such_case",
    "data no_such_action",
    "data fetch no_such_dataset",
    "no_such_command",
)
"""Commands that answer from names and files alone."""


@pytest.mark.parametrize("command", LIGHT)
def test_lists_and_misspelt_names_are_answered_without_heavy_imports(
    command: str, tmp_path: pathlib.Path
) -> None:
    code = (
        f"import sys; from geq.cli import main; main({command.split()!r});"
        f"print([m for m in {HEAVY.split()!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_core_imports_nothing_optional() -> None:
    optional = (
        "lightning jsonargparse torchmetrics tensorboard rich kornia PIL captum matplotlib sklearn skorch"
    )
    code = (
        "import sys, geq; [getattr(geq, n) for n in geq.__all__];"
        f"print([m for m in {optional.split()!r} if m in sys.modules])"
    )
    assert run(code).strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["geq-digits", "geq-cifar10"])
def test_loading_a_network_does_not_import_the_compiler(name: str) -> None:
    """Nor sympy with it: two seconds."""
    code = (
        "import sys; from geq.model.network import Network;"
        f"Network.from_pretrained({name!r}); print('torch._dynamo' in sys.modules)"
    )
    assert run(code).strip() == "False"
