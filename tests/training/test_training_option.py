"""Options: one flat name everywhere, checked values, nearest name for a misspelt one."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import yaml

from geq.errors import OptionError
from geq.model.registry import model_spec
from geq.training.ingredient import augmentation, build_model, decoded, open_datasets
from geq.training.option import GROUPS, TrainOptions
from geq.training.preset import list_presets, preset_path


def test_every_option_belongs_to_one_group() -> None:
    names = [item.name for group in GROUPS for item in fields(group)]
    assert len(names) == len(set(names))
    assert set(names) == {item.name for item in fields(TrainOptions)}


def test_every_option_is_explained() -> None:
    for group in GROUPS:
        for item in fields(group):
            assert f"\n        {item.name}: " in (group.__doc__ or ""), item.name


def test_mapping_and_back() -> None:
    options = TrainOptions(model="resnet_tiny", override=("num_classes=3",), milestones=(0.3, 0.6), ema=0.9)
    again = yaml.safe_load(yaml.safe_dump(options.as_mapping()))
    assert TrainOptions.from_mapping(again) == options


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epoch": 3}, "did you mean 'epochs'"),
        ({"epochs": "many"}, "epochs must be of type int"),
        ({"schedule": "cosin"}, "schedule must be one of"),
        ({"epochs": True}, "epochs must be of type int"),
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
        {"override": ("patch",)},
        {"data_override": ("classes",)},
    ],
)
def test_values_that_cannot_be(values: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        TrainOptions(**values)  # type: ignore[arg-type]


def test_overrides_are_typed() -> None:
    config = type(model_spec("resnet_tiny").config)
    assert decoded(("depths=[1, 2]", "block=basic"), config, "override") == {
        "depths": (1, 2),
        "block": "basic",
    }
    with pytest.raises(OptionError, match="did you mean 'depths'"):
        decoded(("depth=[1]",), config, "override")
    with pytest.raises(OptionError, match="must be a list"):
        decoded(("depths=3",), config, "override")


def test_the_network_fits_the_images() -> None:
    options = TrainOptions(model="resnet_small", override=("widths=[4, 8, 8]",))
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
    wide = TrainOptions(model="geq_tiny", override=("scales=[3, 3]",))
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
    decoded(options.override, type(model_spec(options.model).config), "override")
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
