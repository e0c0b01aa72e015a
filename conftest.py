"""What every test runs under: shapes and types checked at run time, fixed seeds, few threads, no network."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

LOOPBACK = Path(__file__).parent / "tests" / "loopback"
NETWORK_LOG = Path(tempfile.mkstemp(prefix="geq-network-")[1])
os.environ["GEQ_NETWORK_LOG"] = str(NETWORK_LOG)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(LOOPBACK), os.environ.get("PYTHONPATH")]))
runpy.run_path(str(LOOPBACK / "sitecustomize.py"))

install_import_hook(["geq", "geq_papers", "geq_demo"], "beartype.beartype")

import torch  # noqa: E402

torch.set_num_threads(int(os.environ.get("GEQ_TORCH_THREADS", "2")))


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    before = NETWORK_LOG.stat().st_size
    yield
    tried = NETWORK_LOG.read_text()[before:].split()
    assert not tried, f"the test, or a process that it started, wanted to reach {', '.join(tried)}"


@pytest.fixture
def real_root(request: pytest.FixtureRequest) -> Path:
    """The data root that the environment names; without it, what needs the real files is skipped."""
    if not os.environ.get("GEQ_DATA"):
        pytest.skip(f"GEQ_DATA is not set: {request.node.name} needs the real CIFAR-10, CIFAR-100 and CamVid")
    root = Path(os.environ["GEQ_DATA"])
    for folder in ("cifar-10-batches-py", "cifar-100-python", "camvid"):
        if not (root / folder).is_dir():
            pytest.skip(f"GEQ_DATA has no {folder}: {request.node.name} is skipped")
    return root


OTHERS = re.compile(
    r"\bgeq_(papers|demo)\b|\b(resnet|wide_resnet|dnn_|fcn_|node_)|^from stress\b"
    r"|\"(bench|demo|report|reproduce|theorems|tradeoff)\"",
    re.MULTILINE,
)
"""What a test of geq mentions that needs the other packages: their modules, models and commands."""

ALL_INSTALLED = all(map(importlib.util.find_spec, ("geq_papers", "geq_demo")))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Where geq is installed alone, leave out the tests that need the other packages."""
    if ALL_INSTALLED or collection_path.suffix != ".py":
        return None
    root = Path(__file__).parent
    elsewhere = {root / "papers", root / "demo"} & set(collection_path.parents)
    return True if elsewhere or OTHERS.search(collection_path.read_text(encoding="utf-8")) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, help="run at most this many cases of each parametrised test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --cases N, keep N cases of each parametrised test, evenly spaced from the first to the last."""
    most = config.getoption("--cases")
    if most is None:
        return
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {
        id(cases[round(index * (len(cases) - 1) / max(most - 1, 1))])
        for cases in tests.values()
        for index in range(min(most, len(cases)))
    }
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def pytest_unconfigure() -> None:
    NETWORK_LOG.unlink(missing_ok=True)
