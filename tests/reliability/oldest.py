"""The oldest versions that the metadata allows, as constraints for pip: ``make oldest`` tests with them.

torch is left out: the Makefile pins the build that the machine has.
"""

from __future__ import annotations

from pathlib import Path

import tomllib
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECTS = [
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    for folder in ("", "papers", "demo")
]
TESTED = ("train", "vision", "corruption", "explain", "export", "sklearn", "baselines", "tune", "hub")
"""Extras that users install; tools of development may be as new as they like."""

COMPANIONS = {"pyarrow": "17.0"}
"""Packages that we do not name, and that would otherwise come in a version too new for the oldest numpy."""


def oldest() -> dict[str, str]:
    lines = []
    for project in PROJECTS:
        lines += project["dependencies"]
        for extra in TESTED:
            lines += project.get("optional-dependencies", {}).get(extra, [])
    bounds = dict(COMPANIONS)
    for requirement in map(Requirement, lines):
        for bound in requirement.specifier:
            if bound.operator == ">=" and requirement.name not in ("torch", "geq", "geq-papers"):
                bounds[requirement.name] = bound.version
    return bounds


if __name__ == "__main__":
    print("\n".join(f"{name}=={version}.*" for name, version in sorted(oldest().items())))
