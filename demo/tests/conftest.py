"""Runs for the demo: fresh weights, which answer as fast as trained ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from geq.training.run_folder import RunFolder
from geq_demo.network_choice import Collection, gathered
from geq_demo.session import Session
from saved_runs import saved_run, write_cifar10

MODELS = {"patches": "geq_tiny", "plain": "opteq_tiny", "scales": "mdeq_tiny", "layers": "resnet_tiny"}
"""Two branches with β; one equilibrium without; one of several scales; none."""


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, model in MODELS.items():
        finish(saved_run(folder, name, model=model))
    return folder


@pytest.fixture(scope="session")
def collection(runs: Path) -> Collection:
    return gathered([RunFolder.find("patches", runs)], str(runs))


@pytest.fixture(scope="session")
def session(collection: Collection) -> Session:
    return Session(collection)


@pytest.fixture(scope="session")
def colour_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Path]:
    """A run on images in the layout of CIFAR-10, and the folder of the data."""
    root = write_cifar10(tmp_path_factory.mktemp("data"))
    runs = tmp_path_factory.mktemp("colour")
    return (
        finish(
            saved_run(runs, "colour", model="geq_small", data="cifar10", data_root=str(root), validation=0)
        ),
        root,
    )


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the files of the server of :func:`address`."""
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="session")
def start(runs: Path) -> Start:
    """``geq demo`` in its own process, as people start it; it ends with the ``with`` block."""

    @contextmanager
    def started(*arguments: str, **environment: str) -> Iterator[Demo]:
        command = [sys.executable, "-m", "geq.cli", "demo", *arguments, "--runs", str(runs), "--port", "0"]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )
        try:
            assert process.stdout is not None
            lines = []
            while not lines or "http" not in lines[-1]:
                lines.append(process.stdout.readline())
                assert lines[-1], f"the server ended before it listened: {lines}"
            address = re.search(r"http://\S+", lines[-1])
            assert address is not None
            yield Demo(process, lines, address[0])
        finally:
            process.terminate()
            process.communicate(timeout=60)

    return started


@pytest.fixture(scope="module")
def address(start: Start, temporary: Path) -> Iterator[str]:
    """A running server with the network ``layers``, which answers fastest."""
    with start("layers", TMPDIR=str(temporary)) as demo:
        yield demo.address.rstrip("/")


@dataclass(frozen=True)
class Demo:
    """A running server, what it printed so far, and where it is."""

    process: subprocess.Popen[str]
    lines: list[str]
    address: str


Start = Callable[..., AbstractContextManager[Demo]]


def finish(folder: RunFolder) -> RunFolder:
    """As after the last epoch."""
    folder.write_log([{"kind": "final", "test_accuracy": 12.5}])
    return folder
