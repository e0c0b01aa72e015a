"""Saved models come back equal, and every way in which a file can be wrong is named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import huggingface_hub.hub_mixin
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from geq.errors import CheckpointError
from geq.model import pretrained
from geq.model.config import NetworkConfig
from geq.model.model_registry import create_model
from geq.model.network import Network
from geq.model.pretrained import CONFIG, FORMAT_VERSION, WEIGHTS
from geq_papers.model.dnn import DNN
from geq_papers.model.resnet import ResNet
from model_files import Tied, edit


@pytest.fixture
def model() -> Network:
    return create_model("resnet_tiny", num_classes=4, widths=(4, 6)).eval()


@pytest.fixture
def saved(model: Network, tmp_path: Path) -> Path:
    return model.save_pretrained(tmp_path / "model")


def rewrite(saved: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(saved / WEIGHTS)
    change(tensors)
    save_file(tensors, saved / WEIGHTS)


def test_a_saved_model_comes_back_equal(model: Network, saved: Path) -> None:
    images = torch.randn(3, 1, 8, 8)
    again = Network.from_pretrained(saved)
    assert type(again) is ResNet
    assert again.config == model.config
    assert again.registry_name == "resnet_tiny"
    assert not again.training
    assert torch.equal(again(images), model(images))
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
    assert {path.name for path in saved.iterdir()} == {CONFIG, WEIGHTS}


def test_config_json_says_what_it_is(saved: Path) -> None:
    document = json.loads((saved / CONFIG).read_text())
    assert document["format_version"] == FORMAT_VERSION
    assert document["geq_version"]
    assert (document["family"], document["model"], document["dtype"]) == ("resnet", "resnet_tiny", "float32")
    assert document["config"]["widths"] == [4, 6]


def test_two_saves_are_the_same_bytes(model: Network, saved: Path, tmp_path: Path) -> None:
    other = model.save_pretrained(tmp_path / "other")
    for name in (CONFIG, WEIGHTS):
        assert (saved / name).read_bytes() == (other / name).read_bytes()


def test_loading_does_not_touch_the_random_numbers(saved: Path) -> None:
    before = torch.get_rng_state()
    Network.from_pretrained(saved)
    assert torch.equal(before, torch.get_rng_state())


def test_precision_is_kept(model: Network, tmp_path: Path) -> None:
    again = Network.from_pretrained(model.double().save_pretrained(tmp_path))
    assert {parameter.dtype for parameter in again.parameters()} == {torch.float64}
    images = torch.randn(2, 1, 8, 8, dtype=torch.float64)
    assert torch.equal(again(images), model(images))


def test_mixed_precision_is_refused(model: Network, tmp_path: Path) -> None:
    model.get_submodule("head").double()
    with pytest.raises(CheckpointError, match="parameters of one floating type"):
        model.save_pretrained(tmp_path)


def test_a_family_refuses_another(saved: Path) -> None:
    assert isinstance(ResNet.from_pretrained(saved), ResNet)
    with pytest.raises(CheckpointError, match=r"of family 'resnet' \(ResNet\), not DNN"):
        DNN.from_pretrained(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d.update(format_version=FORMAT_VERSION + 1, geq_version="9.9"),
            r"format version 2 \(written by geq '9\.9'\).*pip install --upgrade",
        ),
        (lambda d: d.pop("format_version"), "not written by geq"),
        (lambda d: d.pop("family"), "incomplete: family missing"),
        (lambda d: d.update(family="resnt"), "unknown model family 'resnt'; did you mean 'resnet'"),
        (lambda d: d["config"].pop("widths"), "must state every field; missing: widths"),
        (lambda d: d["config"].update(width=[1]), "did you mean 'widths'"),
        (lambda d: d["config"].update(widths=[4]), "depths and widths must be as many"),
        (lambda d: d.update(dtype="int8"), "dtype must name a floating type of torch; got 'int8'"),
        (lambda d: d["config"].update(num_classes=5), r"head\.weight must have shape \(5, 6\); got \(4, 6\)"),
        (lambda d: d.update(dtype="float64"), r"stem\.0\.weight must be torch\.float64; got torch\.float32"),
    ],
)
def test_wrong_descriptions(saved: Path, change: Callable[[dict], object], message: str) -> None:
    edit(saved, change)
    with pytest.raises(CheckpointError, match=message):
        Network.from_pretrained(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("head.bias"), r"missing tensors: 'head\.bias'"),
        (lambda t: t.update(tail=torch.zeros(1)), "unknown tensors: 'tail'"),
        (lambda t: t.update({"head.bias": torch.zeros(7)}), r"head\.bias must have shape \(4,\); got \(7,\)"),
        (
            lambda t: t.update({"head.bias": t["head.bias"].half()}),
            r"head\.bias must be torch\.float32; got torch\.float16",
        ),
        (
            lambda t: t.update({"head.bias": t["head.bias"] + 1}),
            "not the file that config.json was saved with",
        ),
    ],
)
def test_wrong_weights(saved: Path, change: Callable[[dict[str, Tensor]], object], message: str) -> None:
    rewrite(saved, change)
    with pytest.raises(CheckpointError, match=message):
        Network.from_pretrained(saved)


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_cut_off_weights(saved: Path, kept: int) -> None:
    content = (saved / WEIGHTS).read_bytes()
    (saved / WEIGHTS).write_bytes(content[:kept])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged or cut off"):
        Network.from_pretrained(saved)


def test_missing_files(saved: Path, tmp_path: Path) -> None:
    (saved / WEIGHTS).unlink()
    with pytest.raises(CheckpointError, match=r"has a model\.safetensors"):
        Network.from_pretrained(saved)
    (saved / CONFIG).write_text("{")
    with pytest.raises(CheckpointError, match="cannot be read"):
        Network.from_pretrained(saved)
    (saved / CONFIG).unlink()
    with pytest.raises(CheckpointError, match=r"has a config\.json"):
        Network.from_pretrained(str(saved))
    for absent in (tmp_path / "absent", str(tmp_path / "absent"), "no/such/thing", "./absent"):
        with pytest.raises(CheckpointError, match="is neither"):
            Network.from_pretrained(absent)


def test_the_hub_is_asked_and_its_refusal_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        CheckpointError, match="no directory 'nobody/nothing' exists, and the Hugging Face Hub"
    ):
        Network.from_pretrained("nobody/nothing")


def test_an_interrupted_save_leaves_the_old_model(
    model: Network, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    with torch.no_grad():
        model.get_parameter("head.bias").add_(1)

    def full_disk(*arguments: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        model.save_pretrained(saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


def test_a_save_that_stops_between_the_files_is_noticed(
    model: Network, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.no_grad():
        model.get_parameter("head.bias").add_(1)

    def stop(*arguments: object, **options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(pretrained, "to_json", stop)  # of the configuration, which comes second
    with pytest.raises(KeyboardInterrupt):
        model.save_pretrained(saved)
    with pytest.raises(CheckpointError, match="a save was interrupted"):
        Network.from_pretrained(saved)


def test_saving_over_an_old_model(model: Network, saved: Path) -> None:
    with torch.no_grad():
        model.get_parameter("head.bias").add_(1)
    model.save_pretrained(saved)
    assert torch.equal(
        Network.from_pretrained(saved).get_parameter("head.bias"), model.get_parameter("head.bias")
    )


def test_shared_tensors_stay_shared(tmp_path: Path) -> None:
    model = Tied(NetworkConfig((1, 2, 2), num_classes=4)).eval()
    images = torch.randn(3, 1, 2, 2)
    expected = model(images)
    model.save_pretrained(tmp_path)
    assert "second.weight" not in load_file(tmp_path / WEIGHTS)
    again = Tied.from_pretrained(tmp_path)
    assert again.first.weight is again.second.weight
    assert torch.equal(again.seen, images[0])
    assert torch.equal(again(images), expected)
    with pytest.raises(CheckpointError, match="unknown model family 'tied'"):
        Network.from_pretrained(tmp_path)


def test_pushing_uploads_the_two_files_and_a_card(
    model: Network, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The Hub cannot be reached in a test: its client is replaced by one that keeps the folder."""

    @dataclass
    class Repository:
        repo_id: str

    class Client:
        def __init__(self, token: str | None = None) -> None:
            assert token == "secret"

        def create_repo(self, repo_id: str, private: bool | None, exist_ok: bool) -> Repository:
            assert (repo_id, private, exist_ok) == ("me/tiny", True, True)
            return Repository(repo_id)

        def upload_folder(self, *, folder_path: Path, repo_id: str, **rest: object) -> str:
            for path in Path(folder_path).iterdir():
                (tmp_path / path.name).write_bytes(path.read_bytes())
            return f"https://hub/{repo_id}/commit/1"

    monkeypatch.setattr(huggingface_hub.hub_mixin, "HfApi", Client)
    assert model.push_to_hub("me/tiny", private=True, token="secret") == "https://hub/me/tiny/commit/1"
    images = torch.randn(2, 1, 8, 8)
    assert torch.equal(Network.from_pretrained(tmp_path)(images), model(images))
    assert "library_name: geq" in (tmp_path / "README.md").read_text()
