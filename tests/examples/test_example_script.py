"""The example scripts run as they stand, in small, and what they print about is true."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import torch

from geq.data.dataset_options import data_root

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # dataclasses look there
    found.loader.exec_module(module)
    return module


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000


@pytest.mark.slow
def test_own_energy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curves = script("own_energy").main(["--steps", "12", "--output", str(tmp_path / "x.png")])
    for values in curves.values():
        assert all(after <= before + 1e-12 for before, after in pairwise(values))
    assert max(values[-1] for values in curves.values()) - min(v[-1] for v in curves.values()) < 1e-8
    assert "agrees with finite differences" in capsys.readouterr().out
    assert is_png(tmp_path / "x.png")


@pytest.mark.slow
def test_replace_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = script("replace_block").main(
        ["--epochs", "2", "--seeds", "1", "--images", "512", "--output", str(tmp_path / "x.png")]
    )
    assert [one.steps is None for one in found.values()] == [True, False, False]
    assert all(one.accuracy[0][-1] > 50 for one in found.values())
    sizes = [one.parameters for one in found.values()]
    assert max(sizes) < 1.15 * min(sizes)
    assert "GEQ2d, γ = 0" in capsys.readouterr().out
    assert is_png(tmp_path / "x.png")


@pytest.mark.slow
def test_robust_patches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = script("robust_patches").main(
        ["--epochs", "2", "--images", "512", "--output", str(tmp_path / "x.png")]
    )
    assert [(row.cover, row.side) for row in rows][:2] == [("none", 0), ("noise", 2)]
    assert math.isnan(rows[0].inside)
    assert all(0 < row.outside <= 1 for row in rows)
    assert all(0 < row.inside <= 1 for row in rows[1:])
    assert rows[0].accuracy > 50
    assert "β inside" in capsys.readouterr().out
    assert is_png(tmp_path / "x.png")


GRAPH, TEXT, CIFAR = "graph/cora.npz", "text/shakespeare.txt", "cifar-10-batches-py/test_batch"


def with_data(needed: str) -> None:
    if not (data_root() / needed).is_file():
        pytest.skip(f"no {needed} below {data_root()}")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::geq.ConvergenceWarning")
def test_graph_equilibrium(capsys: pytest.CaptureFixture[str]) -> None:
    with_data(GRAPH)
    found = script("graph_equilibrium").main(["--epochs", "40", "--seeds", "1"])
    assert list(found) == ["GCN", "implicit", "phantom"]
    for name, (run,) in found.items():
        assert run.accuracy > 0.3, f"{name}: chance is 1/7"
    assert found["implicit"][0].evaluations > 2
    assert 0 < found["implicit"][0].radius < 1
    assert "spectral radius" in capsys.readouterr().out


@pytest.mark.slow
def test_character_transformer(capsys: pytest.CaptureFixture[str]) -> None:
    with_data(TEXT)
    found = script("character_transformer").main(["--steps", "12", "--width", "32", "--length", "32"])
    assert list(found) == ["explicit", "implicit", "Jacobian-free"]
    sizes = [run.parameters for run in found.values()]
    assert max(sizes) < 1.05 * min(sizes)
    assert all(run.bits < 6.5 for run in found.values())
    assert found["implicit"].products > 0
    assert 0 < found["implicit"].radius < 1
    assert "bits" in capsys.readouterr().out


@pytest.mark.slow
def test_deblurring(capsys: pytest.CaptureFixture[str]) -> None:
    with_data(CIFAR)
    module = script("deblurring")
    found = module.main(["--steps", "6"])
    clean = module.images("test_batch", 500)
    assert all(run.psnr > module.psnr(module.observed(clean, 3), clean) for run in found.values())
    assert found["implicit"].products > 1
    assert "blurred" in capsys.readouterr().out


@pytest.mark.slow
def test_image_representation(capsys: pytest.CaptureFixture[str]) -> None:
    with_data(CIFAR)
    found = script("image_representation").main(["--steps", "15", "--width", "32"])
    assert list(found) == ["explicit", "implicit", "reversible"]
    assert len({run.parameters for run in found.values()}) == 1
    assert all(run.psnr > 10 for run in found.values())
    assert found["reversible"].evaluations == found["reversible"].products == 12
    assert 0 < found["implicit"].radius < 1
    assert "dB" in capsys.readouterr().out


def test_blur_is_symmetric_and_of_norm_one() -> None:
    """What the step of the deblurring example rests on."""
    module = script("deblurring")
    one, other = torch.rand(2, 2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    assert float((module.blur(one) * other).sum()) == pytest.approx(float((one * module.blur(other)).sum()))
    for _ in range(30):
        one = module.blur(one) / one.norm()
    assert float(module.blur(one).norm() / one.norm()) <= 1.0


ZOO = ["graph_equilibrium", "character_transformer", "deblurring", "image_representation"]


@pytest.mark.parametrize("name", ZOO)
def test_zoo_states_command_and_result(name: str) -> None:
    text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert f"python examples/{name}.py" in text
    assert "minutes" in text
    assert "RESULT" not in text


def test_every_script_is_listed_and_explains_itself() -> None:
    listed = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    scripts = sorted((ROOT / "examples").glob("*.py"))
    assert len(scripts) >= 3
    for path in scripts:
        assert f"({path.name})" in listed, f"examples/README.md does not list {path.name}"
        assert path.read_text(encoding="utf-8").startswith('"""'), f"{path.name} does not say what it shows"
    for path in (ROOT / "examples").glob("*.ipynb"):
        assert f"({path.name})" in listed, f"examples/README.md does not list {path.name}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own_energy", "replace_block", "robust_patches"])
def test_scripts_are_programs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "--output" in done.stdout
