"""What every test runs under: shapes and types checked at run time, fixed seeds, few threads."""

from __future__ import annotations

import os

import pytest
from jaxtyping import install_import_hook

install_import_hook("geq", "beartype.beartype")

import torch  # noqa: E402

torch.set_num_threads(int(os.environ.get("GEQ_TORCH_THREADS", "2")))


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)
