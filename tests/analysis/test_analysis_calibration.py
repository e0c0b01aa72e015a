"""The part ``calibration`` on whole runs: known and unseen classes, other datasets, networks without
equilibria.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from geq.analysis import calibration
from geq.analysis.analysed_network import Subject
from geq.analysis.image_outputs import look, observe
from geq.analysis.ood_datasets import strange_sets
from geq.analysis.settings import Settings
from geq.cli import main
from geq.data.dataset_registry import load_dataset
from geq.errors import InputError
from geq.model.model_registry import create_model
from geq.training.evaluation import evaluate
from geq.training.run_folder import RunFolder
from geq.training.setup import evaluation_loader
from saved_runs import saved_run, write_cifar10
from scenes import write_camvid

FEW = Settings(limit=40, train_images=40, draws=20)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return saved_run(tmp_path_factory.mktemp("runs"), "tiny", model="geq_tiny")


def test_what_is_observed_is_what_the_layers_say(digits: RunFolder) -> None:
    subject = Subject(digits, FEW)
    test = subject.labelled("test").subset(range(30))
    loader = evaluation_loader(test, batch_size=8, statistics=digits.data().statistics)
    seen = observe(subject.model, loader)
    images = next(iter(evaluation_loader(test, statistics=test.statistics, batch_size=30)))[0]
    model = subject.model
    with torch.no_grad():
        torch.testing.assert_close(seen.logits, model(images).double(), rtol=1e-4, atol=1e-4)
        inputs = model.inputs_of_equilibria(images)
        for name, layer in model.equilibria().items():
            energy, attention = layer.energy(inputs[name]).double(), layer.attention(inputs[name]).double()
            torch.testing.assert_close(seen.energy[name], energy, rtol=1e-4, atol=1e-3)
            torch.testing.assert_close(
                seen.attention[name], attention.flatten(1).mean(1), rtol=1e-4, atol=1e-4
            )
        total = sum(seen.energy.values(), start=torch.zeros(30))
        torch.testing.assert_close(total, model.energy(images).double(), rtol=1e-4, atol=1e-3)
    assert torch.equal(seen.labels, test.labels)


def test_a_run_on_all_classes_is_shown_stand_ins(digits: RunFolder) -> None:
    result = calibration.analyse(Subject(digits, FEW))
    assert list(result.values["ood"]) == ["uniform noise", "shuffled pixels"]
    assert result.values["test"]["images"] == 40
    assert 0 <= result.values["ood"]["uniform noise"]["unknown_kl"] <= math.log(10)
    pictures = {
        name: (digits.path / "analysis" / name).read_bytes() for name in ("calibration.png", "ood.png")
    }
    again = calibration.analyse(Subject(digits, FEW))
    assert again.as_mapping() == result.as_mapping()
    for name, content in pictures.items():
        assert content.startswith(b"\x89PNG")
        assert (digits.path / "analysis" / name).read_bytes() == content, f"{name} is not deterministic"


def test_accuracy_and_nll_are_those_of_geq_evaluate(digits: RunFolder) -> None:
    subject = Subject(digits, Settings(train_images=20, draws=2))
    values = calibration.analyse(subject).values
    evaluated = evaluate(subject.model, subject.loader(subject.labelled("test")))
    assert values["test"]["accuracy"] == pytest.approx(evaluated.accuracy, abs=1e-4)
    assert values["known_kl"] == pytest.approx(evaluated.loss, rel=1e-4)
    assert sum(one["images"] for one in values["bins"]) == values["test"]["images"] == 360


def test_unseen_classes_are_the_strange_images_of_a_run_on_known_ones(tmp_path: Path) -> None:
    root = str(write_cifar10(tmp_path / "data"))
    run = saved_run(
        tmp_path,
        "known",
        model="geq_small",
        data="cifar10",
        data_override={"classes": "known"},
        data_root=root,
    )
    subject = Subject(run, FEW, data_root=root)
    assert subject.model.num_classes == 5
    test = subject.labelled("test")
    (name, unseen) = next(iter(strange_sets(subject, test).items()))
    assert (name, len(unseen), len(test)) == ("unseen classes", 10, 10)
    assert unseen.classes == load_dataset("cifar10", "test", root=root).classes[5:]
    result = calibration.analyse(subject)
    assert list(result.values["ood"]) == ["unseen classes"]
    assert result.values["largest_kl"] == pytest.approx(math.log(5))


def test_another_dataset_must_have_the_size_or_be_given_it(tmp_path: Path, digits: RunFolder) -> None:
    root = str(write_cifar10(tmp_path / "data"))
    with pytest.raises(InputError, match="the network's size, 1×8×8: cifar10 has 3×32×32; add --ood_resize"):
        calibration.analyse(Subject(digits, Settings(ood="cifar10", limit=20), data_root=root))
    wanted = Settings(ood="cifar10", ood_resize=True, limit=20, train_images=20, draws=2)
    values = calibration.analyse(Subject(digits, wanted, data_root=root)).values
    assert list(values["ood"]) == ["cifar10"]
    with pytest.raises(InputError, match="another dataset than the run's own"):
        calibration.analyse(Subject(digits, Settings(ood="digits")))


def test_masks_are_no_labels(tmp_path: Path, digits: RunFolder) -> None:
    root = str(write_camvid(tmp_path / "data"))
    with pytest.raises(InputError, match="camvid has masks"):
        calibration.analyse(Subject(digits, Settings(ood="camvid", limit=10), data_root=root))


def test_images_of_another_size_than_in_training(tmp_path: Path) -> None:
    run = saved_run(tmp_path, "tiny", model="dnn_tiny")
    described = run.path / "data.json"
    described.write_text(json.dumps(json.loads(described.read_text()) | {"shape": [1, 9, 9]}))
    with pytest.raises(InputError, match=r"trained on, \(1, 9, 9\): got \(1, 8, 8\)"):
        calibration.analyse(Subject(run, FEW))


@pytest.mark.parametrize(
    "model, says, energies",
    [
        ("dnn_tiny", "dnn_tiny minimises no hidden objective: no scores by energy and β.", 0),
        ("opteq_tiny", "The kernel has no attention: no scores by β.", 1),
    ],
)
def test_runs_without_energy_or_attention(tmp_path: Path, model: str, says: str, energies: int) -> None:
    result = calibration.analyse(Subject(saved_run(tmp_path, "run", model=model), FEW))
    assert says in result.notes
    scores = result.values["ood"]["uniform noise"]["auroc"]
    assert sum(name.startswith("energy, summed") for name in scores) == energies
    assert not any("β" in name for name in scores)
    assert result.values["test"]["images"] == 40


def test_a_layer_that_minimises_nothing_says_so() -> None:
    layer = next(iter(create_model("mdeq_tiny").equilibria().values()))
    assert look(layer, None, None) is None


def test_the_command(tmp_path: Path, digits: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["analyze", str(digits.path), "--only", "calibration", "--limit", "40", "--draws", "5"]
    call += ["--train_images", "40"]
    assert main(call) == 0
    text = capsys.readouterr().out
    assert "ECE (15 bins)" in text
    assert main([*call, "--json"]) == 0
    values: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert values["calibration"]["test"]["images"] == 40
    kept = json.loads((digits.path / "analysis" / "calibration.json").read_text())
    assert kept["settings"]["limit"] == 40
    assert "epsilons" not in kept["settings"], "an attack's settings are none of its business"
    main([*call, "--epsilons", "3"])
    assert "kept from before" in capsys.readouterr().out
