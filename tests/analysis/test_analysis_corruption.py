"""The corruption sweep: definitions by hand, images against those of the files, killed and resumed."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from geq.analysis import corruption
from geq.analysis.analysed_network import Subject
from geq.analysis.corruption import CLEAN, Corrupted, Sweep, analyse, sweep
from geq.analysis.partial_results import Pieces
from geq.analysis.result_pictures import draw_corruptions
from geq.analysis.settings import Settings
from geq.data.corruption import corrupt, corruption_names
from geq.data.corruption.cifar_c import write_cifar_c
from geq.data.dataset_registry import load_dataset
from geq.errors import CheckpointError, DataError, InputError, OptionError
from geq.training.run_folder import RunFolder
from saved_runs import saved_run, write_cifar10
from scenes import write_camvid

SOME = ("gaussian_noise", "shot_noise", "fog")
CASES = 1 + 5 * len(SOME)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return saved_run(tmp_path_factory.mktemp("runs"), "tiny", model="geq_tiny")


def test_errors_by_hand() -> None:
    """CE = (30 + 50)/(40 + 60), relative CE = (20 + 40)/(35 + 55)."""
    ours, theirs = Sweep(10.0, {"fog": (30.0, 50.0)}), Sweep(5.0, {"fog": (40.0, 60.0)})
    assert ours.corruption_error("fog", theirs) == pytest.approx(0.8)
    assert ours.relative_error("fog", theirs) == pytest.approx(60 / 90)
    assert ours.mean_error() == 40.0
    assert ours.corruption_error("fog", ours) == ours.relative_error("fog", ours) == 1.0
    unhurt = Sweep(5.0, {"fog": (5.0, 5.0)})
    assert math.isnan(ours.relative_error("fog", unhurt))
    assert corruption.mean_of_known([1.0, math.nan, 3.0]) == 2.0


def test_a_limited_sweep_sees_the_images_of_the_whole_one() -> None:
    test = load_dataset("digits", "test")
    chosen = corruption.chosen_images(test, 20)
    assert torch.bincount(test.labels[chosen]).tolist() == [2] * 10
    some = Corrupted(test, chosen, "gaussian_noise", 3, seed=0).batch(torch.tensor([4, 7]))
    pictures = test.images.permute(0, 2, 3, 1).numpy()
    whole = corrupt(np.ascontiguousarray(pictures), "gaussian_noise", 3, 0)[chosen[[4, 7]]]
    assert torch.equal(some[0], torch.from_numpy(whole).permute(0, 3, 1, 2))
    assert torch.equal(some[1], test.labels[chosen[[4, 7]]])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_and_resumed(run: RunFolder) -> None:
    """SIGKILL in the middle of a sweep: what was known is kept, and the end is that of an undisturbed one."""
    settings = Settings(limit=10, seed=1, corruptions=SOME)
    undisturbed = sweep(Subject(run, settings))
    written = next((run.path / "analysis").glob("corruption-*.json"))
    expected = json.loads(written.read_text())
    assert len(expected["pieces"]) == CASES
    written.unlink()

    def known() -> int:
        return len(json.loads(written.read_text())["pieces"]) if written.exists() else 0

    pid = os.fork()
    if pid == 0:
        sweep(Subject(run, settings))
        os._exit(0)
    while known() < 3:
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "it ended before it could be killed"
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert 3 <= known() < CASES
    # A mark on what was kept shows whether it is computed again.
    record = json.loads(written.read_text())
    first = next(name for name in record["pieces"] if name != CLEAN)
    record["pieces"][first]["error"] = 12.34
    written.write_text(json.dumps(record))
    resumed = sweep(Subject(run, settings))
    name, severity = first.split("/")
    assert resumed.errors[name][int(severity) - 1] == 12.34
    same = {key: value for key, value in json.loads(written.read_text())["pieces"].items() if key != first}
    assert same == {key: value for key, value in expected["pieces"].items() if key != first}
    assert sweep(Subject(run, settings, again=True)) == undisturbed


def test_other_images_are_other_pieces(run: RunFolder) -> None:
    one = Pieces(run, "thing", {"images": 10})
    one.put("a", {"value": 1.0, "undefined": math.nan})
    assert Pieces(run, "thing", {"images": 10}).values == {"a": {"value": 1.0, "undefined": None}}
    assert Pieces(run, "thing", {"images": 20}).values == {}
    assert Pieces(run, "thing", {"images": 10}, again=True).values == {}
    one.path.write_text('{"key": ')  # damaged
    assert Pieces(run, "thing", {"images": 10}).values == {}


def test_runs_side_by_side(run: RunFolder, tmp_path: Path) -> None:
    other = saved_run(tmp_path, "plain", model="dnn_tiny")
    paths = str(other.path), str(run.path)
    settings = Settings(limit=10, reference=paths[0], beside=paths, corruptions=SOME)
    told: list[tuple[str, int, int]] = []
    subject = Subject(run, settings, progress=lambda *step: told.append(step))
    result = analyse(subject)
    assert list(result.values["runs"]) == ["tiny", "plain"]
    assert result.values["reference"] == "plain"
    reference = result.values["runs"]["plain"]
    assert reference["mce"] == pytest.approx(1.0)
    ours = result.values["runs"]["tiny"]
    by_hand = [sum(ours["errors"][n]) / sum(reference["errors"][n]) for n in SOME]
    assert ours["mce"] == pytest.approx(sum(by_hand) / len(SOME))
    assert told[0] == ("corruptions of tiny", 1, CASES)
    assert told[-1] == ("corruptions of plain", CASES, CASES)
    picture = run.path / "analysis" / "corruption.png"
    before = picture.read_bytes()
    assert analyse(Subject(run, settings)).as_mapping() == result.as_mapping()
    assert picture.read_bytes() == before


def test_runs_on_other_data_cannot_stand_beside(run: RunFolder, tmp_path: Path) -> None:
    root = str(write_cifar10(tmp_path / "data"))
    other = saved_run(tmp_path, "cifar", model="geq_small", data="cifar10", data_root=root)
    with pytest.raises(
        InputError, match=r"measured on the same images: tiny has digits .* cifar has cifar10"
    ):
        analyse(Subject(run, Settings(limit=10, reference=str(other.path)), data_root=root))


def test_an_unfinished_run_cannot_stand_beside(run: RunFolder, tmp_path: Path) -> None:
    other = saved_run(tmp_path, "young", model="dnn_tiny")
    (other.model / "config.json").unlink()
    with pytest.raises(CheckpointError, match="young has no trained network to analyse"):
        analyse(Subject(run, Settings(reference=str(other.path))))


def test_files_give_what_is_computed(tmp_path: Path) -> None:
    """Of a run on the known classes, whose images are half of those in the files."""
    root = str(write_cifar10(tmp_path / "data"))
    files = tmp_path / "CIFAR-10-C"
    write_cifar_c(load_dataset("cifar10", "test", root=root), files, names=["fog", "jpeg_compression"])
    known = saved_run(
        tmp_path,
        "known",
        model="dnn_tiny",
        data="cifar10",
        data_override={"classes": "known"},
        data_root=root,
    )
    subject = Subject(known, Settings(corrupted=str(files)), data_root=root)
    test = subject.labelled("test")
    images = corruption.from_files(subject, files, test, "fog", 2)
    assert torch.equal(images.labels, test.labels)
    whole = load_dataset("cifar10", "test", root=root)
    expected = Corrupted(whole, torch.nonzero(whole.labels < 5)[:, 0], "fog", 2, seed=0).batch(
        torch.arange(10)
    )
    assert torch.equal(images.batch(torch.arange(10))[0], expected[0])
    with pytest.raises(DataError, match="must hold the test images of the run"):
        corruption.from_files(subject, files, test.subset([0, 1]), "fog", 2)
    with pytest.raises(DataError, match=r"gaussian_noise.npy is missing"):
        sweep(subject)


def test_all_corruptions_are_the_default_and_names_are_checked() -> None:
    assert corruption.chosen_corruptions(()) == corruption_names()
    with pytest.raises(OptionError, match="unknown corruption 'frst'; did you mean 'frost'"):
        corruption.chosen_corruptions(("frst",))


def test_masks_are_refused(tmp_path: Path) -> None:
    root = str(write_camvid(tmp_path / "data"))
    small = {"stem_channels": [8, 12], "channels": [12, 16], "strides": [1, 2]}
    run = saved_run(
        tmp_path, "scenes", model="fcn_camvid_small", override=small, data="camvid", data_root=root
    )
    with pytest.raises(InputError, match="is a segmenter, and this part needs one label per image"):
        analyse(Subject(run, Settings(), data_root=root))


def test_the_picture_is_deterministic(tmp_path: Path) -> None:
    errors = {name: 3.0 * number for number, name in enumerate(corruption_names())}
    for file in ("one.png", "two.png"):
        draw_corruptions({"a": (5.0, errors), "b": (7.0, errors)}, tmp_path / file, "title")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
