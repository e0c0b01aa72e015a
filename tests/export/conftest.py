"""Exported files of several tests, written once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from geq.data.digits import read_digits
from geq.data.transform.base import as_float
from geq.export import Agreement, Description, save_onnx
from geq.model.network import Network
from geq.training.run_folder import RunFolder
from geq.training.setup import DataDescription


@dataclass(frozen=True)
class Exported:
    """The trained network that comes with geq, its file, and how they were compared when it was written."""

    network: Network
    data: DataDescription
    path: Path
    agreement: Agreement


@pytest.fixture(scope="session")
def digits() -> torch.Tensor:
    """A thousand pictures of digits, from 0 to 1."""
    return as_float(read_digits("train").batch(torch.arange(1000))[0])


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory, digits: torch.Tensor) -> Exported:
    pytest.importorskip("onnxruntime")
    folder = RunFolder.find("geq-digits")
    network, data = Network.from_pretrained(folder.model), folder.data()
    description = Description(folder.options().model, data.classes, data.statistics, data.shape)
    path = tmp_path_factory.mktemp("exported") / "digits.onnx"
    return Exported(network, data, path, save_onnx(network, description, digits[:8], path))
