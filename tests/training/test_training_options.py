"""Options: one flat name everywhere, checked values, nearest name for a misspelt one."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml

from geq.errors import OptionError
from geq.model.config import typed_fields
from geq.model.model_registry import model_spec
from geq.training.preset import list_presets, preset_path
from geq.training.setup import augmentation, build_model, open_datasets
from geq.training.train_options import GROUPS, TrainOptions

RESULTS = Path(__file__).parents[2] / "results"


def test_every_option_belongs_to_one_group() -> None:
    names = [item.name for group in GROUPS for item in fields(group)]
    assert len(names) == len(set(names))
    assert set(names) == {item.name for item in fields(TrainOptions)}


def test_every_option_is_explained() -> None:
    for group in GROUPS:
        for item in fields(group):
            assert f"\n        {item.name}: " in (group.__doc__ or ""), item.name


def test_mapping_and_back() -> None:
    options = TrainOptions(model="resnet_tiny", override={"num_classes": 3}, milestones=(0.3, 0.6), ema=0.9)
    again = yaml.safe_load(yaml.safe_dump(options.as_mapping()))
    assert TrainOptions.from_mapping(again) == options


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epoch": 3}, "did you mean 'epochs'"),
        ({"epochs": "many"}, "epochs must be a whole number"),
        ({"schedule": "cosin"}, "schedule must be one of"),
        ({"epochs": True}, "epochs must be a whole number"),
        ({"override": ["patch"]}, "override must look like field=value: got 'patch'"),
        ({"override": "patch=4"}, "override must be a list of words"),
        ({"model": {"class": "os.system"}}, "model"),
    ],
)
def test_bad_files_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        TrainOptions.from_mapping(values)


@pytest.mark.parametrize(
    "values",
    [
        {"epochs": 0},
        {"batch_size": 0},
        {"learning_rate": 0.0},
        {"momentum": 1.0},
        {"momentum": 0.0},
        {"milestones": (0.8, 0.2)},
        {"validation": 1.5},
        {"early_stop": 3},
        # Neither would have an evaluation, and so a network to keep, before its end.
        {"early_stop": 9, "validation": 0.1, "evaluate_every": 5, "epochs": 4},
        {"early_stop": 3, "validation": 0.1, "evaluate_every": 5, "epochs": 20},
        {"name": "a/b"},
        {"name": ".."},
        {"ema": 1.0},
        {"devices": 0},
        {"threads": 0},
        {"data_override": {"clases": "known"}},
        {"data_override": {"classes": "knwn"}},
    ],
)
def test_values_that_cannot_be(values: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        TrainOptions(**values)  # type: ignore[arg-type]


def test_overrides_are_typed() -> None:
    config = type(model_spec("resnet_tiny").config)
    assert typed_fields(config, {"depths": [1, 2], "block": "basic"}, "x") == {
        "depths": (1, 2),
        "block": "basic",
    }
    with pytest.raises(OptionError, match="did you mean 'depths'"):
        typed_fields(config, {"depth": [1]}, "x")
    with pytest.raises(OptionError, match="depths of x must be a list of whole numbers; got 3"):
        typed_fields(config, {"depths": 3}, "x")


def test_both_spellings_of_a_file_are_read() -> None:
    chosen = TrainOptions(override={"scales": (10, 2), "gamma": "paper"}, data_override={"folder": "7"})
    assert chosen.as_mapping()["override"] == ["scales=[10,2]", "gamma=paper"]
    assert chosen.as_mapping()["data_override"] == ['folder="7"']
    assert chosen.spelt_out()["model.scales"] == [10, 2]
    for values in (chosen.as_mapping(), chosen.spelt_out()):
        assert TrainOptions.from_mapping(yaml.safe_load(yaml.safe_dump(values))) == chosen


def test_recorded_options_are_written_as_they_were() -> None:
    """Resuming a run and the hash of a record's configuration depend on it."""
    texts = [path.read_text(encoding="utf-8") for path in RESULTS.rglob("*.jsonl")]
    records = [json.loads(line) for text in texts for line in text.splitlines()]
    kept = [record["config"] for record in records if record.get("config", {}).get("override")]
    assert len(kept) > 100
    for config in kept:
        again = TrainOptions.from_mapping(config).as_mapping()
        assert {name: again[name] for name in config} == config


def test_the_network_fits_the_images() -> None:
    options = TrainOptions(model="resnet_small", override={"widths": [4, 8, 8]})
    model = build_model(options, open_datasets(options).describe())
    assert model.input_shape == (1, 8, 8)
    assert model.num_classes == 10


def test_a_network_that_does_not_fit_says_so() -> None:
    digits = open_datasets(TrainOptions()).describe()
    for name, words in (
        ("geq_small", "geq_small needs images of at least 29×29: got 8×8; take geq_tiny$"),
        ("geq_strong_small", "at least 31×31: got 8×8; take geq_strong_tiny$"),
    ):
        with pytest.raises(OptionError, match=words):
            build_model(TrainOptions(model=name), digits)
        least = int(words.split("least ")[1][:2])
        build_model(TrainOptions(model=name), replace(digits, shape=(1, least, least)))
    wide = TrainOptions(model="geq_tiny", override={"scales": [3, 3]})
    with pytest.raises(OptionError, match="geq_tiny cannot be built for images of 1×8×8"):
        build_model(wide, digits)


def test_automatic_augmentation() -> None:
    assert augmentation("digits", "auto") == "shift"
    assert augmentation("cifar10", "auto") == "crop_flip"
    assert augmentation("imagenette", "auto") == "none"
    assert augmentation("digits", "none") == "none"


def test_validation_images_are_not_training_images() -> None:
    whole = open_datasets(TrainOptions())
    parts = open_datasets(TrainOptions(validation=0.2))
    assert whole.monitored is whole.test
    assert whole.monitored_name == "test"
    assert parts.monitored_name == "validation"
    assert len(parts.train) + len(parts.monitored) == len(whole.train)


@pytest.mark.parametrize("name", list_presets())
def test_presets_are_complete(name: str) -> None:
    values = yaml.safe_load(preset_path(name).read_text())
    options = TrainOptions.from_mapping(values, name)
    typed_fields(type(model_spec(options.model).config), options.override, name)
    assert {
        "model",
        "data",
        "learning_rate",
        "epochs",
        "batch_size",
        "weight_decay",
        "schedule",
    } <= values.keys()


def test_the_quick_preset_is_the_default() -> None:
    values = yaml.safe_load(preset_path("quick").read_text())
    defaults = TrainOptions().as_mapping() | {"augment": "shift"}
    assert {name: defaults[name] for name in values} == values


def test_unknown_presets_name_the_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean 'quick'"):
        preset_path("quik")
