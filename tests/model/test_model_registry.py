"""Names, overrides and laziness of the registry; the sizes of all models in one table."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch

from geq.errors import OptionError
from geq.model.model_registry import (
    FAMILIES,
    ModelSpec,
    create_model,
    family_class,
    list_models,
    model_spec,
    register,
)
from geq.plugin import entry_points
from geq_papers.model.resnet import ResNet, ResNetConfig

EXACT = {
    # torchvision's counts for 1000 classes
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "wide_resnet50": 68_883_240,
    # Neural ODE: 3→125 (1×1), 125→125 (3×3), 125→3 (1×1), 3·32·32→10, with biases
    "node_cifar_172k": (3 * 125 + 125) + (125 * 125 * 9 + 125) + (125 * 3 + 3) + (3072 * 10 + 10),
    "node_augmented_cifar_172k": (13 * 64 + 64) + (64 * 64 * 9 + 64) + (64 * 13 + 13) + (13 * 1024 * 10 + 10),
}
ROUNDED = {
    # OptEq tables 4 and 6: to the digits that are printed
    "opteq_cifar_1m4": (1.4e6, 1e5),
    "dnn_cifar_1m4": (1.4e6, 1e5),
    "opteq_imagenet_small": (18e6, 1e6),
    "opteq_imagenet_middle": (40e6, 1e6),
}
NAMED_SIZE = re.compile(r"_(?P<number>\d+)(?P<unit>[mk])(_|$)")
MATCHED = {"_small_200k": (200e3, 0.05), "_small": (50e3, 0.05), "_tiny": (20e3, 0.10)}
SIZED = re.compile(r"(deep_)?[a-z]+(?P<label>_small_200k|_small|_tiny)")
"""Family and size at the start of a name: these are compared with each other."""
RESTORERS = ("restorer_", "dncnn_")
"""Prefixes of networks that restore images: half the parameters, compared with each other only."""
SPECIAL = ("wide_resnet", "fcn_", "opteq_camvid", "opteq_cityscapes", "opteq_cifar", "opteq_imagenet")
"""Prefixes without models of those sizes."""


def parameters(name: str) -> int:
    with torch.device("meta"):
        return create_model(name).parameter_count()


@pytest.mark.parametrize("name", EXACT)
def test_exact_counts(name: str) -> None:
    assert parameters(name) == EXACT[name]


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_counts(name: str) -> None:
    printed, digit = ROUNDED[name]
    assert round(parameters(name) / digit) == round(printed / digit)


@pytest.mark.parametrize(
    "name",
    [name for name in list_models() if NAMED_SIZE.search(name) and not SIZED.match(name)],
)
def test_a_size_in_a_name_is_the_papers(name: str) -> None:
    """Published sizes (5M, 8M, 172k, …), to which the count must round."""
    found = NAMED_SIZE.search(name)
    assert found is not None
    assert round(parameters(name) / {"m": 1e6, "k": 1e3}[found["unit"]]) == int(found["number"])


@pytest.mark.parametrize(
    "name", [name for name in list_models() if SIZED.match(name) and not name.startswith(RESTORERS)]
)
def test_small_models_have_matched_sizes(name: str) -> None:
    found = SIZED.match(name)
    assert found is not None
    label = found["label"]
    size, tolerance = MATCHED[label]
    assert abs(parameters(name) / size - 1) <= tolerance
    assert model_spec(name).input_shape == ((1, 8, 8) if label == "_tiny" else (3, 32, 32))
    assert model_spec(name).config.num_classes == 10


PREFIXES = [
    *(prefix for prefixes in FAMILIES.values() for prefix in prefixes),
    *entry_points("geq.models"),
]


@pytest.mark.parametrize("prefix", [prefix for prefix in PREFIXES if prefix not in (*SPECIAL, *RESTORERS)])
def test_every_family_has_small_models(prefix: str) -> None:
    assert {prefix.rstrip("_") + label for label in MATCHED} <= set(list_models())


def test_every_name_begins_with_a_known_prefix() -> None:
    """Otherwise its file would not be loaded when it is asked for by name."""
    assert [name for name in list_models() if not name.startswith(tuple(PREFIXES))] == []


def test_patterns() -> None:
    assert list_models("resnet18*") == ["resnet18", "resnet18_cifar"]
    assert list_models("no_such_*") == []
    assert list_models() == sorted(set(list_models()))


def test_unknown_names_give_the_nearest() -> None:
    with pytest.raises(OptionError, match="unknown model 'resnet_tny'; did you mean 'resnet_tiny'"):
        create_model("resnet_tny")
    with pytest.raises(OptionError, match="did you mean 'widths'"):
        create_model("resnet_tiny", wdths=(4, 4))
    with pytest.raises(OptionError, match="unknown model family 'resnets'; did you mean 'resnet'"):
        family_class("resnets")


def test_overrides_are_fields_of_the_configuration() -> None:
    model = create_model("resnet_tiny", num_classes=3, widths=[4, 6], input_shape=(2, 8, 8))
    assert model.config == ResNetConfig((2, 8, 8), num_classes=3, depths=(1, 1), widths=(4, 6))
    assert model.input_shape == (2, 8, 8)
    assert model.num_classes == 3
    assert model.registry_name == "resnet_tiny"
    assert model(torch.randn(2, 2, 8, 8)).shape == (2, 3)
    assert model_spec("resnet_tiny").config.num_classes == 10, "the registry itself does not change"


def test_a_name_has_one_meaning() -> None:
    spec = model_spec("resnet_tiny")
    with pytest.raises(OptionError, match="'resnet_tiny' is already registered"):
        register(spec)
    with pytest.raises(OptionError, match="ResNet is built from a ResNetConfig; got a DNNConfig"):
        register(ModelSpec("resnet_odd", ResNet, model_spec("dnn_tiny").config, "none"))
    assert "resnet_odd" not in list_models()


@pytest.mark.slow
def test_creating_one_model_loads_its_family_only_and_listing_loads_nothing_optional() -> None:
    code = """
import sys
from geq.model.model_registry import create_model, list_models
create_model("resnet_tiny")
print(*sys.modules)
list_models()
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    after_creating, after_listing = (set(line.split()) for line in done.stdout.splitlines())
    assert "geq_papers.model.resnet" in after_creating
    assert "geq_papers.model.dnn" not in after_creating
    assert "geq_papers.model.node" not in after_listing
    assert not {"torchdiffeq", "huggingface_hub.hub_mixin", "geq.model.pretrained"} & after_listing
