"""Configurations go to JSON and come back equal; what does not fit is named."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import Literal

import pytest

from geq.errors import CheckpointError, OptionError
from geq.model.config import NetworkConfig, from_json, override, to_json
from geq_papers.model.resnet import ResNetConfig


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Part:
    size: int


@dataclass(frozen=True)
class LargePart(Part):
    factor: float = 2.0


@dataclass(frozen=True)
class Whole(NetworkConfig):
    part: Part = field(default=Part(1), kw_only=True)
    parts: tuple[Part, ...] = field(default=(), kw_only=True)
    limit: float | None = field(default=None, kw_only=True)
    colour: Colour = field(default=Colour.RED, kw_only=True)
    pairs: tuple[tuple[int, int], ...] = field(default=(), kw_only=True)


def through_json(config: NetworkConfig) -> NetworkConfig:
    return from_json(type(config), json.loads(json.dumps(to_json(config))))


@pytest.mark.parametrize(
    "config",
    [
        NetworkConfig((1, 8, 8)),
        Whole(
            (3, 4, 5), part=LargePart(2, 3.5), parts=(Part(1), LargePart(7)), limit=0.1, colour=Colour.BLUE
        ),
        Whole((3, 4, 5), num_classes=7, pairs=((1, 2), (3, 4))),
        ResNetConfig((3, 32, 32), depths=(1, 1), widths=(4, 8), block="bottleneck", inner=2),
    ],
    ids=lambda config: type(config).__name__,
)
def test_round_trip(config: NetworkConfig) -> None:
    assert through_json(config) == config
    assert hash(through_json(config)) == hash(config)


def test_a_whole_number_is_a_fraction_too() -> None:
    document = to_json(Whole((1, 1, 1), limit=2.0))
    document["limit"] = 2
    assert isinstance(from_json(Whole, document).limit, float)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_classes": "ten"}, r"config\.num_classes must be a whole number; got 'ten'"),
        ({"num_classes": True}, r"config\.num_classes must be a whole number"),
        ({"num_classes": 0}, r"num_classes must be at least 1"),
        ({"input_shape": [1, 2]}, r"config\.input_shape must have 3 entries; got 2"),
        ({"input_shape": 3}, r"config\.input_shape must be a list"),
        ({"parts": [{"class": "Part", "size": 1.5}]}, r"config\.parts\[0\]\.size must be a whole number"),
        (
            {"part": {"class": "NetworkConfig", "size": 1}},
            r"config\.part must be a LargePart or Part; got 'NetworkConfig'",
        ),
        ({"colour": "GREEN"}, r"config\.colour must be one of \['BLUE', 'RED'\]"),
        ({"limit": "high"}, r"config\.limit"),
        ({"lmit": 1.0}, r"did you mean 'limit'"),
        ({"class": "os.system"}, r"must be a Whole; got 'os.system'"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        from_json(Whole, {**to_json(Whole((1, 8, 8))), **change})


def test_a_missing_field_is_not_filled_with_todays_default() -> None:
    document = to_json(Whole((1, 8, 8)))
    del document["limit"]
    with pytest.raises(CheckpointError, match="missing: limit"):
        from_json(Whole, document)


def test_a_choice_is_checked() -> None:
    document = {**to_json(ResNetConfig((3, 32, 32), depths=(1,), widths=(4,))), "stem": "mnist"}
    with pytest.raises(CheckpointError, match=r"config\.stem must be one of \['imagenet', 'cifar'\]"):
        from_json(ResNetConfig, document)


@dataclass(frozen=True)
class Choosing(NetworkConfig):
    stem: Literal["imagenet", "cifar"] = field(default="cifar", kw_only=True)


def test_a_choice_is_checked_at_construction() -> None:
    assert Choosing((1, 8, 8), stem="imagenet").stem == "imagenet"
    with pytest.raises(OptionError, match=r"stem must be one of \['imagenet', 'cifar'\]; got 'mnist'"):
        Choosing((1, 8, 8), stem="mnist")


def test_only_describable_values_are_written() -> None:
    @dataclass(frozen=True)
    class Odd(NetworkConfig):
        thing: object = field(default_factory=object, kw_only=True)

    with pytest.raises(OptionError, match="got object"):
        to_json(Odd((1, 8, 8)))


def test_override_names_the_nearest_field_and_takes_lists() -> None:
    config = ResNetConfig((3, 32, 32), depths=(1,), widths=(4,))
    assert override(config, {"widths": [6]}).widths == (6,)
    with pytest.raises(OptionError, match="did you mean 'widths'"):
        override(config, {"width": (6,)})


@pytest.mark.parametrize(
    ("kind", "value"),
    [(float, 10**400), (int, 10**400), (NetworkConfig, {"class": []}), (float, "x" * 10**6)],
    ids=["float", "int", "class", "text"],
)
def test_values_of_any_length_are_refused_in_a_short_sentence(kind: type, value: object) -> None:
    with pytest.raises(CheckpointError) as caught:
        from_json(kind, value)
    assert len(str(caught.value)) < 500
