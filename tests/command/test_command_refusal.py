"""Values that cannot be: one line that says so, exit status 2, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from geq.cli import main
from geq.data.dataset_registry import load_dataset
from geq.data.splits import hold_out
from geq.errors import LARGEST_SEED, OptionError
from geq.training.train_options import TrainOptions

LONG = "x" * 300
LEAVES_NONE = "validation must hold out at least one of the 1437 training images"
QUICK = ("train", "--model", "dnn_tiny", "--epochs", "1", "--train_size", "32", "--picture", "false")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*QUICK, "--seed", str(2**40)), "seed must be from 0 to 4294967295: got 1099511627776"),
        ((*QUICK, "--seed", "-1"), "seed must be from 0 to 4294967295: got -1"),
        ((*QUICK, "--seed", str(10**60)), "seed must be from 0 to 4294967295"),
        (("analyze", "geq-digits", "--seed", str(2**70)), "seed must be from 0"),
        (("explain", "geq-digits", "--seed", "-5"), "seed must be from 0"),
        (
            (*QUICK, "--validation", "64", "--data.validation_seed", "-1"),
            "validation_seed must be from 0",
        ),
        ((*QUICK, "--data.subset_seed", "-1"), "subset_seed must be from 0"),
        ((*QUICK, "--data.subset", "0"), "subset must be at least 1 image: got 0"),
        ((*QUICK, "--validation", "1437"), f"{LEAVES_NONE} of digits and leave at least one: got 1437"),
        ((*QUICK, "--validation", "0.9999"), f"{LEAVES_NONE} of digits and leave at least one: got 0.9999"),
        ((*QUICK, "--validation", "0.00001"), f"{LEAVES_NONE} of digits and leave at least one: got 1e-05"),
        (
            (*QUICK, "--validation", "1.0"),
            "validation must be a share from 0 to below 1, a whole number of images",
        ),
        ((*QUICK, "--validation", "99999"), "validation must hold out"),
        ((*QUICK, "--name", LONG), "name must be the name of one folder, at most 255 bytes"),
        ((*QUICK, "--name", "β" * 200), "name must be the name of one folder, at most 255 bytes"),
        ((*QUICK, "--runs", f"runs/{LONG}"), "cannot be used (File name too long): choose a shorter name"),
        (
            ("tune", "--study", LONG, "--validation", "0.1"),
            "study must be the name of one folder, at most 255",
        ),
        (("train", "--resume", LONG), "unknown run"),
        (("evaluate", LONG), "unknown run"),
        (("predict", "geq-digits", f"{LONG}.png"), "File name too long"),
        (("data", "list", "--data-root", LONG), "cannot be used (File name too long)"),
        (("runs", "--runs", LONG), "cannot be used (File name too long)"),
        (("train", "--config", LONG), "File name too long"),
    ],
    ids=lambda value: " ".join(word[:20] for word in value[-2:]) if isinstance(value, tuple) else "",
)
def test_it_is_refused_in_one_line(
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(list(arguments)) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.startswith("geq: error: ")
    assert len(said.err.splitlines()) == 1
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("seed", [0, 2**31, LARGEST_SEED])
def test_every_seed_that_is_allowed_trains(seed: int, tmp_path: Path) -> None:
    assert main([*QUICK, "--seed", str(seed), "--runs", str(tmp_path), "--quiet"]) == 0


def test_one_image_may_be_held_out_or_left() -> None:
    digits = load_dataset("digits", "train", validation=0)
    for size, left in ((1, 1436), (1436, 1)):
        assert len(hold_out(digits, size).train) == left
    for size in (0, -1, 1437, 1438, 0.9999):
        with pytest.raises(OptionError, match="hold out at least one"):
            hold_out(digits, size)


def test_a_size_is_a_share_or_a_number() -> None:
    assert TrainOptions(validation=1).validation == 1
    assert TrainOptions(validation=200.0).validation == 200
    for size in (1.0, 1.5, -0.1, float("inf"), float("nan")):
        with pytest.raises(OptionError, match="validation must be a share"):
            TrainOptions(validation=size)
