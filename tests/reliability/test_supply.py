"""Supply chain: versions that fit together, and a reproducible wheel."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distributions, version
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECTS = [
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    for folder in ("", "papers", "demo")
]
LINES = [
    line
    for project in PROJECTS
    for lines in (project["dependencies"], *project.get("optional-dependencies", {}).values())
    for line in lines
]
REQUIRED = {
    requirement.name: requirement
    for line in LINES
    if not (requirement := Requirement(line)).name.startswith("geq")
}
PINNED = {
    canonicalize_name(name): Version(number)
    for name, number in (line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
}

ADVISORIES = {
    # package: (first version without the defect, what it was)
    "torch": ("2.6", "CVE-2025-32434: torch.load executed code in spite of weights_only"),
    "pillow": ("10.3", "CVE-2024-28219: a buffer overflow in _imagingcms"),
    "scikit-learn": ("1.5", "CVE-2024-5206: vectorisers kept all tokens"),
    "onnx": ("1.16", "CVE-2024-27318: external data could lie outside the model's folder"),
    "gradio": (
        "5.0",
        "CVE-2024-47167 and others: foreign requests, files outside the allowed ones",
    ),
    "lightning": ("2.3.3", "CVE-2024-5452: a deserialised delta could execute code"),
}
"""Defects of packages that geq uses, from their public advisories; no range may reach below the repair."""


def installed() -> dict[str, Version]:
    return {canonicalize_name(found.metadata["Name"]): Version(found.version) for found in distributions()}


@pytest.mark.parametrize("name", sorted(REQUIRED))
def test_every_dependency_has_a_lower_bound_and_is_pinned_within_its_range(name: str) -> None:
    requirement = REQUIRED[name]
    assert any(bound.operator == ">=" for bound in requirement.specifier), f"{requirement}: no lower bound"
    if canonicalize_name(name) != "torch":  # pinned in the Makefile, which installs it first
        assert requirement.specifier.contains(PINNED[canonicalize_name(name)], prereleases=True)


@pytest.mark.parametrize("name", sorted(ADVISORIES))
def test_no_range_reaches_a_version_with_a_known_defect(name: str) -> None:
    repaired, what = ADVISORIES[name]
    lowest = [Version(bound.version) for bound in REQUIRED[name].specifier if bound.operator == ">="]
    assert max(lowest) >= Version(repaired), what


def test_what_is_installed_is_pinned_and_fits_together() -> None:
    found = installed()
    for distribution in distributions():
        for line in distribution.requires or []:
            requirement = Requirement(line)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
                continue
            here = found.get(canonicalize_name(requirement.name))
            name = distribution.metadata["Name"]
            assert here is not None, f"{name} needs {requirement}, which is not installed"
            assert requirement.specifier.contains(here, prereleases=True), (
                f"{name}: {requirement}, not {here}"
            )


def wheel(folder: Path) -> Path:
    environment = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    build = "from hatchling.build import build_wheel; build_wheel('dist')"
    subprocess.run(
        [sys.executable, "-c", build], cwd=source, env=environment, check=True, capture_output=True
    )
    (made,) = (source / "dist").glob("*.whl")
    return made


@pytest.mark.slow
def test_the_wheel_is_the_same_wherever_it_is_built(tmp_path: Path) -> None:
    first, second = wheel(tmp_path / "one"), wheel(tmp_path / "elsewhere")
    assert first.name == second.name == f"geq-{version('geq')}-py3-none-any.whl"
    assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()
    inside = zipfile.ZipFile(first).namelist()
    assert "geq/weights/geq-digits/model/model.safetensors" in inside
    assert all(name.startswith(("geq/", f"geq-{version('geq')}.dist-info/")) for name in inside)
    assert not any(name.endswith((".pyc", ".so", ".ckpt")) for name in inside)
