"""The three wheels, used outside of the repository: geq alone, then with the packages that extend it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"geq": ".", "geq_papers": "papers", "geq_demo": "demo"}
INSIDE = {
    "geq": ("geq/py.typed", "geq/cli.py", "geq/weights/geq-digits/model/model.safetensors"),
    "geq_papers": ("geq_papers/py.typed", "geq_papers/report/errata.json", "geq_papers/model/resnet.py"),
    "geq_demo": ("geq_demo/py.typed", "geq_demo/style.css"),
}
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GEQ_"))}

pytestmark = pytest.mark.slow


def build(package: str, folder: Path) -> Path:
    """Build a wheel from a copy of its sources, without network."""
    source = folder / package
    origin = ROOT / FOLDERS[package]
    code = Path("src", "geq") if package == "geq" else Path(package)
    shutil.copytree(origin / code, source / code, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(origin / name, source / name)
    command = "from hatchling.build import build_wheel; build_wheel('dist')"
    subprocess.run([sys.executable, "-c", command], cwd=source, env=CLEAN, check=True, capture_output=True)
    (made,) = (source / "dist").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    return {package: build(package, folder) for package in FOLDERS}


class Place:
    """An environment that has all libraries of this one, and of our packages those that were installed."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "environment", with_pip=False)
        self.python = folder / "environment" / "bin" / "python"
        (self.site,) = (folder / "environment").glob("lib/python*/site-packages")
        self.work = folder / "work"
        self.work.mkdir()
        for origin in filter(lambda path: path.endswith("site-packages"), sys.path):
            for entry in Path(origin).iterdir():
                ours = "geq" in entry.name or entry.suffix == ".pth"
                if not ours and not (self.site / entry.name).exists():
                    (self.site / entry.name).symlink_to(entry)

    def install(self, wheel: Path) -> None:
        zipfile.ZipFile(wheel).extractall(self.site)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**CLEAN, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [str(self.python), *words],
            cwd=self.work,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def geq(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "geq.cli", *words)


def place_with(factory: pytest.TempPathFactory, wheels: dict[str, Path], *packages: str) -> Place:
    place = Place(factory.mktemp("place"))
    for package in packages:
        place.install(wheels[package])
    return place


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]) -> Place:
    return place_with(tmp_path_factory, wheels, "geq")


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]) -> Place:
    return place_with(tmp_path_factory, wheels, *FOLDERS)


@pytest.mark.parametrize("package", FOLDERS)
def test_contents(wheels: dict[str, Path], package: str) -> None:
    names = zipfile.ZipFile(wheels[package]).namelist()
    assert set(INSIDE[package]) <= set(names)
    metadata = f"{wheels[package].name.split('-py3')[0]}.dist-info"
    assert {name.split("/")[0] for name in names} == {package, metadata}
    assert not any(name.endswith((".pyc", ".so", ".ckpt")) or "/tests/" in name for name in names)


def test_geq_is_from_its_wheel(alone: Place) -> None:
    found = alone.run("-c", "import geq; print(geq.__file__)")
    assert Path(found.stdout.strip()).is_relative_to(alone.site), found.stderr


def test_readme_example(alone: Place) -> None:
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert blocks
    done = alone.run("-W", "error", "-c", "\n".join(blocks))
    assert done.returncode == 0, done.stderr


def test_train(alone: Place) -> None:
    done = alone.geq("train", "--epochs", "1", "--picture", "false")
    assert done.returncode == 0, done.stderr
    (run,) = (alone.work / "runs").iterdir()
    assert (run / "model" / "model.safetensors").exists()


@pytest.mark.parametrize("command, package", [("reproduce", "geq-papers"), ("demo", "geq-demo")])
def test_a_missing_package_is_named(alone: Place, command: str, package: str) -> None:
    done = alone.geq(command)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"geq: error: geq {command} comes with {package}, which is not installed: pip install {package}\n"
    )
    assert f"pip install {package}" in alone.geq("--help").stdout


def test_a_missing_model_is_named(alone: Place) -> None:
    done = alone.geq("show", "resnet18")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "model 'resnet18' comes with geq-papers, which is not installed: pip install geq-papers"
        in done.stderr
    )
    assert "resnet" not in alone.geq("models").stdout


def test_with_geq_papers(complete: Place) -> None:
    listed = complete.geq("reproduce")
    assert listed.returncode == 0, listed.stderr
    assert "geq-table-1a" in listed.stdout
    assert "pip install" not in complete.geq("--help").stdout
    assert "resnet18" in complete.geq("models").stdout
    assert "generalisation: a bound" in " ".join(complete.geq("analyze", "--help").stdout.split())


def test_with_geq_demo(complete: Place) -> None:
    assert "usage: geq demo" in complete.geq("demo", "--help").stdout
    done = complete.run("-c", "import geq_demo.server, geq_demo.session")
    assert done.returncode == 0, done.stderr


def test_a_package_of_others(alone: Place) -> None:
    """Its command is listed and called, and cannot replace one of geq."""
    (alone.site / "guest.py").write_text("def main(arguments):\n    print('guest', *arguments)\n")
    metadata = alone.site / "guest-1.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "entry_points.txt").write_text("[geq.commands]\nvisit = guest:main\ntrain = guest:main\n")
    listed = alone.geq("--help").stdout
    assert re.search(r"^  visit +from guest$", listed, re.MULTILINE)
    assert alone.geq("visit", "here").stdout == "guest here\n"
    assert "usage: geq train" in alone.geq("train", "--help").stdout
