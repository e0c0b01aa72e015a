"""Optional packages: not loaded before they are needed, and named when they are missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from geq.data.digits import read_digits
from geq.data.hub import read_hub
from geq.data.image_reader import read_image
from geq.data.transform import RandAugment, randaugment
from geq.errors import MissingExtraError


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for package in ("PIL", "kornia", "datasets", "sklearn"):
        monkeypatch.setitem(sys.modules, package, None)
    randaugment._kornia.cache_clear()
    images = torch.zeros(40, 3, 8, 8, dtype=torch.uint8)
    with pytest.raises(MissingExtraError, match=r"needs kornia.*pip install 'geq\[vision\]'"):
        RandAugment()(images, torch.Generator().manual_seed(0))
    with pytest.raises(MissingExtraError, match=r"pillow.*geq\[vision\]"):
        read_image(tmp_path / "image.png")
    with pytest.raises(MissingExtraError, match=r"datasets.*geq\[hub\]"):
        read_hub(tmp_path, "train")
    with pytest.raises(MissingExtraError, match=r"scikit-learn.*geq\[train\]"):
        read_digits("train")


def test_nothing_optional_is_imported_and_corruptions_name_what_they_miss() -> None:
    code = """
import sys
import geq.data.dataset_registry, geq.data.loader, geq.data.transform, geq.data.corruption, geq.data.fetch
optional = "PIL kornia sklearn scipy skimage cv2 datasets rich jsonargparse lightning".split()
print([name for name in optional if name in sys.modules])
sys.modules["cv2"] = None
import numpy
try:
    geq.data.corruption.corrupt(numpy.zeros((1, 8, 8, 3), dtype=numpy.uint8), "fog", 1, 0)
except geq.errors.MissingExtraError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded, message = result.stdout.splitlines()
    assert loaded == "[]"
    assert "needs cv2" in message
    assert "geq[corruption]" in message
