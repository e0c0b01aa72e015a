"""Every header field and every tensor of a model file replaced: refused with CheckpointError, or loaded as it
is written; never another error, never a network that answers NaN.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from geq.errors import CheckpointError, GeqError
from geq.model.config import NetworkConfig, to_json
from geq.model.model_registry import create_model
from geq.model.network import Network
from geq.model.pretrained import CONFIG, WEIGHTS
from model_files import Tied, edit

MODELS = ("geq_tiny", "opteq_tiny", "mdeq_tiny", "resnet_tiny")
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    3,
    2**31,
    10**400,
    0.5,
    -1e300,
    float("nan"),
    float("inf"),
    "",
    "x" * 10_000,
    "\u0000",
    [],
    [[]],
    [-1, 0],
    {},
    {"class": "Path"},
]
"""What a field may be replaced by."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A trained network of each kind: buffers that images size have their size."""
    folder = tmp_path_factory.mktemp("models")
    found = {}
    for name in MODELS:
        torch.manual_seed(0)
        model = create_model(name).train()
        model(torch.rand(2, *model.input_shape))
        found[name] = model.eval().save_pretrained(folder / name)
    return found


@pytest.fixture
def copy(saved: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return shutil.copytree(saved[request.param], tmp_path / "model")


def fields(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of each value in a JSON document, the inner ones too."""
    if place:
        yield place
    inner = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in inner:
        if isinstance(value, (dict, list)):
            yield from fields(value, (*place, key))
        else:
            yield (*place, key)


def replaced(document: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = deepcopy(document)
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def removed(document: dict[str, Any], place: tuple[Any, ...]) -> dict[str, Any]:
    changed = replaced(document, place, None)
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    del inner[place[-1]]
    return changed


def write_weights(folder: Path, tensors: dict[str, Tensor]) -> None:
    """As an attacker would: with a digest that fits."""
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / WEIGHTS)
    digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    edit(folder, lambda document: document.update(weights_sha256=digest))


def check_refused_or_as_written(folder: Path, kind: type[Network] = Network) -> bool:
    """Return whether the file is refused; if not, it must load as written and give finite numbers."""
    refusal = ""
    try:
        model = kind.from_pretrained(folder)
    except CheckpointError as problem:
        refusal = str(problem)
    assert len(refusal) < 1000
    assert "\n" not in refusal
    if refusal:
        return True
    document = json.loads((folder / CONFIG).read_text())
    stored = load_file(folder / WEIGHTS)
    state = model.state_dict()
    assert type(document["format_version"]) is int
    assert document["format_version"] == 1
    assert (document["family"], document["model"]) == (model.family, model.registry_name)
    given, built = document["config"], to_json(model.config)
    assert {key: built[key] for key in given} == given
    assert all(torch.equal(state[name], tensor) for name, tensor in stored.items())
    assert all(torch.equal(state[alias], stored[name]) for alias, name in document["aliases"].items())
    check_answers(model, json.dumps([given, document["weights_sha256"]]))
    return False


ANSWERED: set[str] = set()
"""Configurations and weights whose answers were checked."""


def check_answers(model: Network, contents: str) -> None:
    if contents in ANSWERED:
        return
    ANSWERED.add(contents)
    channels, *sides = model.input_shape
    with torch.no_grad(), suppress(GeqError):  # a solver that may take one step only does not converge
        assert bool(torch.isfinite(model(torch.rand(1, channels, *(min(side, 32) for side in sides)))).all())


def header_cases() -> list[Any]:
    found = []
    for name in MODELS:
        document = {"config": to_json(create_model(name).config)}
        header = ("format_version", "geq_version", "family", "model", "dtype", "weights_sha256", "aliases")
        for place in [*((one,) for one in header), *fields(document)]:
            found.append(pytest.param(name, place, id=f"{name}-{'.'.join(map(str, place))}"))
    return found


@pytest.mark.filterwarnings("ignore::geq.errors.ConvergenceWarning")  # of 3 evaluations, or of ‖W‖ = 1e300
@pytest.mark.slow
@pytest.mark.parametrize(("copy", "place"), header_cases(), indirect=["copy"])
def test_every_header_field_replaced(copy: Path, place: tuple[Any, ...]) -> None:
    document = json.loads((copy / CONFIG).read_text())
    for value in VALUES:
        (copy / CONFIG).write_text(json.dumps(replaced(document, place, value)))
        check_refused_or_as_written(copy)
    (copy / CONFIG).write_text(json.dumps(removed(document, place)))
    check_refused_or_as_written(copy)


@pytest.mark.parametrize("version", [True, False, 0, -1, 2, 1.0, "1", None, [1], 10**400])
@pytest.mark.parametrize("copy", ["resnet_tiny"], indirect=True)
def test_only_this_format_version_is_read(copy: Path, version: Any) -> None:
    edit(copy, lambda document: document.update(format_version=version))
    assert check_refused_or_as_written(copy)


@pytest.mark.parametrize(
    "dtype", sorted(name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype))
)
@pytest.mark.parametrize("copy", ["resnet_tiny"], indirect=True)
def test_every_type_of_torch_as_the_type_of_the_weights(copy: Path, dtype: str) -> None:
    edit(copy, lambda document: document.update(dtype=dtype))
    refused = check_refused_or_as_written(copy)
    assert refused == (dtype not in ("float", "float32"))


def holed(tensor: Tensor, value: float) -> Tensor:
    """One entry replaced: the smallest damage."""
    changed = tensor.clone()
    changed.view(-1)[-1] = value
    return changed


FLOATING: dict[str, Callable[[Tensor], Tensor]] = {
    "NaN": lambda t: holed(t, float("nan")),
    "infinity": lambda t: holed(t, float("inf")),
    "minus infinity": lambda t: holed(t, float("-inf")),
    "half": lambda t: t.half(),
    "double": lambda t: t.double(),
    "whole": lambda t: t.to(torch.int64),
    "boolean": lambda t: t.bool(),
}
MISSHAPEN: dict[str, Callable[[Tensor], Tensor]] = {
    "another axis": lambda t: t[None],
    "more rows": lambda t: torch.cat([t, t]),
    "no rows": lambda t: t[:0],
    "one column more": lambda t: torch.cat([t, t[..., :1]], -1),
}
COUNTS: dict[str, Callable[[Tensor], Tensor]] = {
    "floating": lambda t: t.float(),
    "narrow": lambda t: t.to(torch.int32),
    "vector": lambda t: t[None].repeat(3),
}


def damages_of(tensor: Tensor) -> dict[str, Callable[[Tensor], Tensor]]:
    if not tensor.is_floating_point():
        return COUNTS
    return {**FLOATING, **(MISSHAPEN if tensor.ndim else {})}


def check_damaged(copy: Path, every: bool) -> None:
    """Damage each tensor in each way, or, to be quick, in two ways that alternate between the tensors."""
    tensors = load_file(copy / WEIGHTS)
    model = Network.from_pretrained(copy)
    fresh = type(model)(model.config).state_dict()
    for number, (name, tensor) in enumerate(tensors.items()):
        damages = list(damages_of(tensor).items())
        chosen = damages if every else [damages[(2 * number + one) % len(damages)] for one in (0, 1)]
        for damage, change in chosen:
            write_weights(copy, {**tensors, name: change(tensor)})
            refused = check_refused_or_as_written(copy)
            # A buffer that images size may have another shape.
            assert refused or (damage in MISSHAPEN and not fresh[name].numel()), (name, damage)


@pytest.mark.parametrize("copy", ["geq_tiny", "resnet_tiny"], indirect=True)
def test_every_tensor_damaged_in_some_ways(copy: Path) -> None:
    check_damaged(copy, every=False)


@pytest.mark.slow
@pytest.mark.parametrize("copy", MODELS, indirect=True)
def test_every_tensor_damaged_in_every_way(copy: Path) -> None:
    check_damaged(copy, every=True)


@pytest.mark.parametrize("copy", MODELS, indirect=True)
def test_missing_tensors_and_aliases_in_their_place(copy: Path) -> None:
    """Whether a tensor is stored or not, it cannot be another one: these networks share no tensors."""
    tensors = load_file(copy / WEIGHTS)
    names = list(tensors)
    for name in names[::5]:
        like = [one for one in names if one != name and tensors[one].shape == tensors[name].shape]
        for rest in (tensors, {one: tensor for one, tensor in tensors.items() if one != name}):
            write_weights(copy, rest)
            if name not in rest:
                assert check_refused_or_as_written(copy), f"{name} is missing"
            for other in [*like[:1], "nothing", name]:
                edit(copy, partial(dict.update, aliases={name: other}))
                assert check_refused_or_as_written(copy), (name, other)
            edit(copy, partial(dict.update, aliases={}))


SIZES = [(1, 32, 1500, 1500), (1, 1, 1500, 1500), (1500, 1500), (1, 32, 33, 8), (100_000,), (1, 1, 1, 1, 1)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("copy", ["geq_tiny", "opteq_tiny"], indirect=True)
def test_buffer_that_images_size_must_fit_the_images(copy: Path, size: tuple[int, ...]) -> None:
    """Of whatever buffers: of none, if no network has such ones any more."""
    tensors = load_file(copy / WEIGHTS)
    model = Network.from_pretrained(copy)
    for name, fresh in type(model)(model.config).state_dict().items():
        if not fresh.numel():
            write_weights(copy, {**tensors, name: torch.ones(size)})
            with pytest.raises(CheckpointError, match=r"at most \d+ channels on a map of at most 32×32"):
                Network.from_pretrained(copy)


@pytest.mark.parametrize("copy", ["resnet_tiny"], indirect=True)
def test_unknown_tensors_are_listed_in_one_sentence(copy: Path) -> None:
    unknown = {f"{number}" + "x" * 1000: torch.zeros(1) for number in range(100)}
    write_weights(copy, {**load_file(copy / WEIGHTS), **unknown})
    assert check_refused_or_as_written(copy)


@pytest.mark.parametrize("copy", ["resnet_tiny"], indirect=True)
def test_negative_variance_is_refused(copy: Path) -> None:
    tensors = load_file(copy / WEIGHTS)
    write_weights(copy, {**tensors, "stem.1.running_var": -tensors["stem.1.running_var"] - 1})
    with pytest.raises(CheckpointError, match=r"stem\.1\.running_var must not be negative"):
        Network.from_pretrained(copy)


@pytest.mark.parametrize("copy", ["resnet_tiny"], indirect=True)
def test_name_of_another_family_is_refused(copy: Path) -> None:
    edit(copy, lambda document: document.update(model="geq_tiny"))
    with pytest.raises(CheckpointError, match="model must be of family 'resnet'; got geq_tiny, of 'branch'"):
        Network.from_pretrained(copy)


@pytest.mark.parametrize(
    ("aliases", "message"),
    [
        ({"second.weight": "first.weight", "part": "whole"}, "must not be a stored tensor; got 'part'"),
        ({"second.weight": "third.weight"}, "must name a stored tensor; got 'third.weight'"),
        ({"second.weight": "first.bias"}, "second.weight must have shape"),
        ({"second.weight": 3}, "aliases must map names to names"),
        ([], "aliases must map names to names"),
        ({}, "missing tensors: 'second.weight'"),
    ],
)
def test_aliases_of_a_network_that_shares(tmp_path: Path, aliases: Any, message: str) -> None:
    Tied(NetworkConfig((1, 2, 2), num_classes=4)).save_pretrained(tmp_path)
    edit(tmp_path, lambda document: document.update(aliases=aliases))
    with pytest.raises(CheckpointError, match=message):
        Tied.from_pretrained(tmp_path)


def test_shared_tensor_with_two_values_is_refused(tmp_path: Path) -> None:
    Tied(NetworkConfig((1, 2, 2), num_classes=4)).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS)
    edit(tmp_path, lambda document: document.update(aliases={}))
    write_weights(tmp_path, {**tensors, "second.weight": tensors["first.weight"].clone()})
    assert not check_refused_or_as_written(tmp_path, Tied)
    write_weights(tmp_path, {**tensors, "second.weight": tensors["first.weight"] + 1})
    with pytest.raises(CheckpointError, match="one tensor of the network; got two values"):
        Tied.from_pretrained(tmp_path)


def test_tensors_that_the_configuration_does_not_share_are_not_saved_as_shared(tmp_path: Path) -> None:
    model = create_model("resnet_tiny")
    batch_norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    batch_norms[1].weight = batch_norms[0].weight
    with pytest.raises(CheckpointError, match="an alias must be a tensor that the network shares"):
        model.save_pretrained(tmp_path)
