"""``geq export`` as a user meets it."""

from __future__ import annotations

import builtins
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from geq.cli import main
from geq.command.export import main as export
from geq.errors import CheckpointError, MissingExtraError, OptionError
from geq.training.run_folder import RunFolder
from saved_runs import saved_run

pytest.importorskip("onnxruntime")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A finished run of a network that is exported fast."""
    folder = saved_run(tmp_path, "done", model="resnet_tiny", data="digits")
    folder.write_log([{"kind": "final", "epochs": 1}])
    return folder


def test_both_kinds_are_written_into_the_run(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert export([str(run.path), "--onnx", "--torch", "--images", "10", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["compared_on"] == "test images of digits"
    assert [Path(file["file"]) for file in said["files"]] == [run.path / "model.onnx", run.path / "model.pt2"]
    for file in said["files"]:
        assert file["images"] == 10
        assert file["difference"] < 1e-5
        assert file["bytes"] == Path(file["file"]).stat().st_size
    assert not list(run.path.glob(".*.tmp"))


def test_a_file_that_is_there_stays_unless_forced(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "old.onnx"
    path.write_text("old")
    with pytest.raises(OptionError, match="exists already"):
        export([str(run.path), "--onnx", str(path)])
    assert path.read_text() == "old"
    assert export([str(run.path), "--onnx", str(path), "--force", "--images", "4"]) == 0
    assert path.stat().st_size > 1000
    printed = capsys.readouterr().out
    assert "largest difference of a logit" in printed
    assert "4 test images of digits" in printed


def test_what_is_asked_wrongly_is_answered_before_anything_is_computed(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = str(run.path)
    with pytest.raises(OptionError, match="--onnx, --torch or both"):
        export([name])
    with pytest.raises(OptionError, match="two different files"):
        export([name, "--onnx", str(tmp_path / "a"), "--torch", str(tmp_path / "a")])
    with pytest.raises(OptionError, match="is a folder"):
        export([name, "--onnx", str(tmp_path)])
    with pytest.raises(OptionError, match="missing does not"):
        export([name, "--onnx", str(tmp_path / "missing" / "a.onnx")])
    with pytest.raises(OptionError, match="did you mean '--onnx'"):
        export([name, "--onxn"])
    with pytest.raises(OptionError, match="--images must be at least 1"):
        export([name, "--onnx", "--images", "0"])
    with pytest.raises(OptionError, match="--tol must lie between"):
        export([name, "--onnx", "--tol", "0"])
    with pytest.raises(OptionError, match="--max_steps must be at least 1"):
        export([name, "--onnx", "--max_steps", "0"])
    assert main(["export", "no-such-run", "--onnx"]) == 2
    assert "no-such-run" in capsys.readouterr().err


def test_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    folder = saved_run(tmp_path, "half", model="resnet_tiny", data="digits")
    with pytest.raises(CheckpointError, match=r"is stopped: resume it with 'geq train --resume"):
        export([str(folder.path), "--onnx"])
    with folder.locked(), pytest.raises(CheckpointError, match="is running: wait for it"):
        export([str(folder.path), "--onnx"])
    assert not (folder.path / "model.onnx").exists()


@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "geteuid"), reason="permissions of POSIX")
def test_a_folder_that_may_not_be_written(run: RunFolder, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        target = Path("/proc/self/model.onnx")  # root may write everywhere but here
        if not target.parent.is_dir():
            pytest.skip("no folder that root may not write")
    else:
        target = tmp_path / "closed" / "model.onnx"
        target.parent.mkdir(mode=0o500)
    with pytest.raises(CheckpointError, match="cannot be written"):
        export([str(run.path), "--onnx", str(target), "--images", "2"])
    assert not target.exists()


def test_a_missing_package_is_named_with_its_extra(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "onnxruntime":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"needs onnxruntime.*geq\[export\]"):
        export([str(run.path), "--onnx"])


def test_without_the_data_random_images_serve(tmp_path: Path) -> None:
    from geq.export.check import sample_images
    from geq.training.train_options import TrainOptions

    options = TrainOptions(data="cifar10", model="resnet_small")
    images, source = sample_images(options, (3, 32, 32), 5, str(tmp_path))
    assert source == "random images"
    assert images.shape == (5, 3, 32, 32)
    assert float(images.min()) >= 0
    assert float(images.max()) <= 1
    assert torch.equal(images, sample_images(options, (3, 32, 32), 5, str(tmp_path))[0])


@pytest.mark.slow
def test_a_network_that_comes_with_geq_at_another_tolerance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        main(["export", "geq-digits", "--onnx", "--tol", "1e-5", "--max_steps", "80", "--images", "8"]) == 0
    )
    assert "100.0 % the same class" in capsys.readouterr().out
    import onnx

    model = onnx.load(tmp_path / "runs" / "geq-digits" / "model.onnx")
    said = {item.key: item.value for item in model.metadata_props}
    assert (said["tolerance"], said["max_steps"], said["model"]) == ("1e-05", "80", "geq_tiny")
