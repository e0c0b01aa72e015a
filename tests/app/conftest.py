"""Runs for the demo: fresh weights, which answer as fast as trained ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from geq.app.collection import Collection, gathered
from geq.app.session import Session
from geq.training.run import RunFolder
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


def finish(folder: RunFolder) -> RunFolder:
    """As after the last epoch."""
    folder.write_log([{"kind": "final", "test_accuracy": 12.5}])
    return folder
