"""``geq doctor``: what it finds here, and what it says where something is missing."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from geq.cli import main
from geq.command import doctor_checks, gpu_checks
from geq.command.doctor_checks import PURPOSES, Finding, examine, required
from geq.command.gpu_checks import compare_devices

ROOT = Path(__file__).resolve().parents[2]


def found(name: str, findings: Iterator[Finding]) -> Finding:
    return next(one for one in findings if one.name == name)


@pytest.mark.slow
def test_all_is_well_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GEQ_DATA", raising=False)
    findings = list(examine())
    assert [one for one in findings if one.state == "problem"] == []
    assert {one.group for one in findings} == {
        "versions",
        "extras",
        "packages",
        "devices",
        "compiler",
        "data",
        "folders",
    }
    assert found("equilibrium", iter(findings)).value == "solved and differentiated"
    assert found("digits", iter(findings)).value == "360 test images"
    assert list(tmp_path.iterdir()) == [], "looking must leave nothing behind"


def test_json_and_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = Finding("a", "b", "ok", "c"), Finding("a", "d", "problem", "broken", "mend it")
    monkeypatch.setattr("geq.command.doctor.examine", lambda: iter([good]))
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    monkeypatch.setattr("geq.command.doctor.examine", lambda: iter([good, bad]))
    assert main(["doctor", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    assert said["findings"][1] == {
        "group": "a",
        "name": "d",
        "state": "problem",
        "value": "broken",
        "hint": "mend it",
    }
    assert main(["doctor", "--quiet"]) == 1
    assert capsys.readouterr().out == ""
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "✗ d" in shown
    assert "→ mend it" in shown
    assert "1 problem" in shown
    assert main(["doctor", "--jsn"]) == 2
    assert "did you mean '--json'" in capsys.readouterr().err


def test_each_extra_says_what_it_is_for() -> None:
    # tomllib is there from Python 3.11 on; the lines of the table are simple enough without.
    text = (ROOT / "pyproject.toml").read_text()
    table = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    declared = {line.split(" = ")[0] for line in table.splitlines() if " = [" in line}
    assert declared == set(PURPOSES)
    assert set(required()) == {"", *PURPOSES}
    assert "lightning" in required()["dev"], "extras within extras are followed"


def test_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor_checks.installed
    absent = {"ray", "lightning", "numpy"}
    monkeypatch.setattr(
        doctor_checks, "installed", lambda package: None if package in absent else real(package)
    )
    cluster = found("geq-papers[cluster]", doctor_checks.packages())
    assert (cluster.state, cluster.hint) == ("note", "pip install 'geq-papers[cluster]'")
    assert "missing: ray" in cluster.value
    assert found("train", doctor_checks.extras()).state == "problem"
    assert found("numpy", doctor_checks.versions()).state == "problem"


def test_data_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GEQ_DATA", str(tmp_path / "nowhere"))
    root = found("root", doctor_checks.data())
    assert root.state == "problem"
    assert "GEQ_DATA" in root.hint
    monkeypatch.setenv("GEQ_DATA", str(tmp_path))
    assert found("root", doctor_checks.data()).state == "ok"
    cifar = found("cifar10", doctor_checks.data())
    assert (cifar.state, cifar.value, cifar.hint) == ("note", "not there", "run 'geq data fetch cifar10'")
    imagenet = found("imagenet", doctor_checks.data())
    assert (imagenet.value, imagenet.hint[:8]) == ("not there", "register")


def test_folders_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").touch()  # a file where a folder should be
    monkeypatch.chdir(tmp_path)
    runs = found("runs", doctor_checks.folders())
    assert runs.state == "problem"
    assert "--runs FOLDER" in runs.hint
    assert found("results", doctor_checks.folders()).state == "ok"
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_little_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "LITTLE_SPACE", 2**70)
    monkeypatch.setattr(doctor_checks, "LITTLE_SHARED", 2**70)
    assert doctor_checks.folder_finding("runs", tmp_path, "", "problem").hint.startswith("free some space")
    assert "--shm-size" in next(doctor_checks.shared_memory(tmp_path)).hint


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-compiler"))
    (compiler,) = doctor_checks.kernel()
    assert compiler.state == "note"
    assert "slower without" in compiler.hint


def test_the_kernel_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = importlib.import_module("geq.kernels.compiled_patch")
    monkeypatch.setenv("GEQ_COMPILE", "0")
    kernel.load.cache_clear()
    try:
        assert "GEQ_COMPILE=0" in list(doctor_checks.kernel())[-1].value
    finally:
        monkeypatch.undo()
        kernel.load.cache_clear()


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"rich", "jsonargparse", "torch"}:
            raise ImportError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from geq.cli import main
sys.exit(main(["doctor"]))
"""


def test_it_works_where_nothing_else_does(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 1
    assert "✗ equilibrium" in done.stdout
    assert "→ reinstall torch" in done.stdout
    assert "results" in done.stdout


def test_a_device_is_compared_with_the_cpu() -> None:
    """Here another CPU stands in for the device; that a wrong answer is found is tested below."""
    findings = list(compare_devices("cpu"))
    assert [one.state for one in findings] == 8 * ["ok"]
    assert {"logits, float64", "gradient, float32", "solve, float32", "batch of 1"} <= {
        one.name for one in findings
    }


def test_a_device_that_computes_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = gpu_checks.answers

    def off(device: str, dtype: str, tol: float) -> dict[str, object]:
        found = answers(device, dtype, tol)
        return found if dtype == "float64" else {**found, "logits": 1.01 * found["logits"]}

    monkeypatch.setattr(gpu_checks, "answers", off)
    wrong = [one for one in compare_devices("cpu") if one.state == "problem"]
    assert [one.name for one in wrong] == ["logits, float32"]
    assert "issue" in wrong[0].hint


def test_without_a_gpu_the_comparison_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("geq.command.doctor.examine", lambda: iter([]))
    assert main(["doctor", "--gpu", "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["group"], finding["value"]) == ("GPU", "torch finds no GPU")
