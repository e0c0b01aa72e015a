"""The networks that come with the package: small, whole, loadable offline, and as their cards say."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard

import geq
from geq.cli import main
from geq.command.train import SUMMARY, declare
from geq.command.training_arguments import parse_training
from geq.data.download_sources import SYSTEM_FOLDERS
from geq.errors import CheckpointError, OptionError
from geq.model.shipped_networks import FOLDER, is_shipped, shipped_folder, shipped_names
from geq.training.device import limited_threads
from geq.training.evaluation import evaluate
from geq.training.run_folder import RunFolder, known_runs
from geq.training.setup import evaluation_loader, open_split
from geq.training.train_options import PLACES
from geq.training.training_monitors import LIMITS
from geq.weights.card import Card, card_text, disk_size, model_card, read_card, shipped_cards
from geq.weights.pack import LARGEST, TEXT, machine_path
from geq_papers.experiment.equilibrium_measurement import SinceStart

NAMES = shipped_names()
SECTIONS = [
    *("Use", "Data", "Training", "Accuracy", "Calibration", "Corruption", "Certificate"),
    *("Intended use", "Limits", "Licence"),
]
FILES = {
    *("README.md", "card.json", "config.yaml", "data.json", "environment.json", "log.jsonl"),
    *("model/config.json", "model/model.safetensors"),
}


def test_digits_are_there() -> None:
    assert "geq-digits" in NAMES
    assert set(NAMES) <= {"geq-digits", "geq-fashion-mnist", "geq-cifar10", "geq-cifar100"}


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_small_and_whole(name: str) -> None:
    folder = shipped_folder(name)
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == FILES
    assert disk_size(folder) <= LARGEST
    card = read_card(folder)
    weights = (folder / "model" / "model.safetensors").read_bytes()
    assert (card.weights_bytes, card.weights_sha256) == (len(weights), hashlib.sha256(weights).hexdigest())


@pytest.mark.parametrize("name", NAMES)
def test_no_file_speaks_of_a_machine(name: str) -> None:
    folder = shipped_folder(name)
    for path in sorted(folder.rglob("*.[jmy]*")):
        if path.suffix != ".safetensors":
            assert machine_path(path.read_text()) is None, path
    assert "platform" not in json.loads((folder / "environment.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_the_card_is_what_its_data_say(name: str) -> None:
    folder, card = shipped_folder(name), read_card(shipped_folder(name))
    text = (folder / TEXT).read_text()
    assert text == card_text(card)
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == SECTIONS
    for number in (
        f"{card.test.accuracy:.2f} %",
        f"{card.calibration.ece:.2f} %",
        f"{card.corruption.accuracy:.2f} %",
        f"{card.calibration.nll:.4f}",
        card.training.command,
    ):
        assert number in text
    assert len(card.corruption.each) == 19
    every = torch.tensor(list(card.corruption.each.values()), dtype=torch.float64)
    assert float(every.mean()) == pytest.approx(card.corruption.accuracy)


@pytest.mark.parametrize("name", NAMES)
def test_the_card_is_of_the_run(name: str) -> None:
    folder, card = RunFolder.find(name), read_card(shipped_folder(name))
    options, final = folder.options(), folder.result()
    assert final is not None
    assert (final["test_accuracy"], final["parameters"]) == (card.test.accuracy, card.parameters)
    assert (options.model, options.data, options.name) == (card.model, card.data, name)
    data = folder.data()
    assert (list(data.classes), list(data.shape)) == (card.classes, card.shape)
    assert options.early_stop is None


@pytest.mark.parametrize("name", NAMES)
def test_the_command_of_the_card_trains_with_these_options(name: str) -> None:
    card, options = read_card(shipped_folder(name)), RunFolder.find(name).options()
    program, command, *arguments = shlex.split(card.training.command)
    assert (program, command) == ("geq", "train")
    _, stated = parse_training("train", SUMMARY, arguments, declare, {})
    kept = {place: getattr(options, place) for place in PLACES}
    assert replace(stated, **kept) == options
    assert f"ship/{name.replace('-', '_')}" in arguments


@pytest.mark.parametrize("name", NAMES)
def test_every_equilibrium_is_proved_to_be_the_only_one(name: str) -> None:
    card = read_card(shipped_folder(name))
    model = geq.model.Network.from_pretrained(name)
    proved = model.well_posedness()
    assert set(card.certificate) == set(proved)
    for layer, found in card.certificate.items():
        assert found.unique
        assert found.distance is not None
        assert found.distance < 5
        # Proved again, in single precision and by the layer itself.
        own = proved[layer]
        assert own.unique
        assert own.feedback_norm == pytest.approx(found.feedback_norm, rel=1e-4)


def test_digits_are_recognised_as_the_card_says() -> None:
    folder, card = RunFolder.find("geq-digits"), read_card(shipped_folder("geq-digits"))
    options, model = folder.options(), geq.model.Network.from_pretrained("geq-digits")
    batches = evaluation_loader(open_split(options, "test"), statistics=folder.data().statistics)
    with limited_threads(options, model):
        found = evaluate(model, batches)
    assert (found.images, found.accuracy) == (card.test.images, card.test.accuracy)
    assert found.loss == pytest.approx(card.test.loss, rel=1e-3)
    assert found.loss == pytest.approx(card.calibration.nll, rel=1e-3)


@pytest.mark.data
@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in NAMES if name != "geq-digits"])
def test_images_are_recognised_as_the_card_says(
    name: str, real_root: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if name == "geq-fashion-mnist" and not SYSTEM_FOLDERS["fashion_mnist"][0].is_dir():
        pytest.skip("the package dataset-fashion-mnist is not installed")
    card = read_card(shipped_folder(name))
    asked = ["evaluate", name, "--runs", str(tmp_path), "--data-root", str(real_root), "--json"]
    assert main(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["images"] == card.test.images
    # Another processor rounds otherwise: an image or two on the border between classes may change sides.
    assert found["accuracy"] == pytest.approx(card.test.accuracy, abs=0.03)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "geq-digits" else (pytest.mark.data,))
        for name in NAMES
        if name != "geq-fashion-mnist"
    ],
)
def test_trained_to_the_end_is_far_from_what_is_called_a_collapse(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name != "geq-digits":
        monkeypatch.setenv("GEQ_DATA", str(request.getfixturevalue("real_root")))
    found = SinceStart(images=64).measure(RunFolder.find(name))
    for kind, ratio in (
        ("gamma", found["gamma_ratio"]),
        ("distance", found["distance_ratio"]),
        ("rank", found["rank_kept"] / 100),
    ):
        low, high, _ = LIMITS[kind]
        assert 1.2 * low < ratio < high / 1.2, kind


OFFLINE = """
import socket, sys

def refused(*arguments, **options):
    raise OSError("no network here")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refused
import geq
model = geq.model.Network.from_pretrained("geq-digits")
assert "huggingface_hub" not in sys.modules
import torch
print(model.parameter_count(), tuple(model(torch.zeros(1, 1, 8, 8)).shape), model.training)
"""


def test_loads_by_name_without_a_network(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OFFLINE]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert shown.strip() == f"{read_card(shipped_folder('geq-digits')).parameters} (1, 10) False"


def test_an_unknown_name_gives_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is neither.*did you mean 'geq-digits'"):
        geq.model.Network.from_pretrained("geq-digit")
    with pytest.raises(OptionError, match="did you mean 'geq-digits'"):
        shipped_folder("geq_digits")
    with pytest.raises(OptionError, match=r"did you mean 'geq-digits'.*known:.*geq-digits"):
        RunFolder.find("geq-digit", tmp_path)


def test_a_folder_of_ones_own_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = geq.create_model("resnet_tiny").save_pretrained(tmp_path / "geq-digits")
    monkeypatch.chdir(tmp_path)
    assert geq.model.Network.from_pretrained("geq-digits").registry_name == "resnet_tiny"
    assert geq.model.Network.from_pretrained(str(own)).registry_name == "resnet_tiny"


def test_a_run_of_ones_own_comes_first(tmp_path: Path) -> None:
    assert RunFolder.find("geq-digits", tmp_path).home == shipped_folder("geq-digits")
    (tmp_path / "geq-digits").mkdir()
    (tmp_path / "geq-digits" / "config.yaml").write_text("model: geq_small\n")
    found = RunFolder.find("geq-digits", tmp_path)
    assert found.home == found.path == tmp_path / "geq-digits"
    assert found.options().model == "geq_small"


def test_what_is_written_goes_to_the_runs(tmp_path: Path) -> None:
    for name in ("geq-digits", str(FOLDER / "geq-digits")):
        found = RunFolder.find(name, tmp_path)
        assert found.path == tmp_path / "geq-digits"
        assert found.title == found.name == "geq-digits"
        assert is_shipped(found.home)
        assert found.state() == "finished"
    assert not list(tmp_path.iterdir())
    assert known_runs(tmp_path) == []


def test_cards_of_all() -> None:
    assert [card.name for card in shipped_cards()] == NAMES


def test_a_damaged_card_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_card(tmp_path)
    values = read_card(shipped_folder("geq-digits")).as_mapping()
    del values["parameters"]
    (tmp_path / "card.json").write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=r"is not the card of a network.*parameters"):
        read_card(tmp_path)


def test_the_hub_reads_the_head_of_a_card() -> None:
    card = ModelCard.load(shipped_folder("geq-digits") / TEXT)
    assert card.data.to_dict() == {
        "license": "apache-2.0",
        "library_name": "geq",
        "pipeline_tag": "image-classification",
        "tags": ["equilibrium-model"],
        "datasets": ["digits"],
        "metrics": ["accuracy"],
    }


@pytest.mark.parametrize("name", ["---", "a\n---\nb", "a: b", "{{ 7 * 7 }}", "!!python/object:a", "\x00", ""])
def test_no_name_of_a_dataset_breaks_out_of_the_head(name: str) -> None:
    values = read_card(shipped_folder("geq-digits")).as_mapping() | {"data": name}
    card = model_card(Card.from_mapping(values))
    assert card.data.datasets == [name]
    assert card.text.lstrip().startswith("# geq-digits\n")


def test_a_card_says_what_its_network_has_not() -> None:
    values = read_card(shipped_folder("geq-digits")).as_mapping()
    values |= {"data": "mine", "certificate": {}}
    values["training"]["settings"] |= {"override": ["patch=4", "gamma=zero"], "optimizer": "adamw"}
    text = card_text(Card.from_mapping(values))
    for said in (
        "nothing is recorded here of where it comes from",
        "the terms of the data are not recorded here",
        "so there is nothing to certify",
        "| options of the model | `patch=4`, `gamma=zero` |\n| seed |",
        "| optimiser | AdamW, learning rate",
    ):
        assert said in text


def test_settings_that_a_card_lacks_or_lies_about(tmp_path: Path) -> None:
    values = read_card(shipped_folder("geq-digits")).as_mapping()
    del values["training"]["settings"]["warmup_epochs"]
    assert "warm-up" in card_text(Card.from_mapping(values))
    values["training"]["settings"]["momentum"] = "much"
    with pytest.raises(OptionError, match="momentum must be a number"):
        card_text(Card.from_mapping(values))
    values["test"]["accuracy"] = "high"
    with pytest.raises(CheckpointError, match="accuracy must be a number"):
        Card.from_mapping(values)
