"""Contract of every registered model; a new one is tested by being in the registry."""

from __future__ import annotations

import copy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from geq.cells import EnergyProblem
from geq.errors import GeqError, InputError, OptionError
from geq.export.portable_network import refuse
from geq.model.model_registry import create_model, list_models
from geq.model.network import FeatureMap, Network

NAMES = list_models()
TINY = [name for name in NAMES if "_tiny" in name]
SMALL = [name for name in NAMES if "_small" in name and "_200k" not in name and "imagenet" not in name]
LARGE = [name for name in NAMES if name not in TINY + SMALL]
BY_DAY = (
    "dnn_cifar_162k",
    "geq_cifar_5m",
    "geq_imagenet_6m",
    "mdeq_cifar_10m",
    "mon_cifar_172k",
    "mopteq_cifar_8m",
    "node_cifar_172k",
    "opteq_cifar_162k",
    "resnet18",
    "resnet18_cifar",
)
"""Of the large ones, the smallest that the papers have of each kind; the others are built like these or like
a small one, take up to minutes for the simplest test, and come by night."""

COMPILED_BY_DAY = ["deep_opteq_tiny", "geq_strong_tiny", "geq_tiny_nonpatch", "mdeq_tiny", "mopteq_tiny"]
TRAINED_BY_DAY = [
    *("fcn_camvid_small", "opteq_camvid_small"),  # have no tiny one
    *("geq_small", "geq_strong_small", "resnet_small"),
]

WITHOUT_LAST_MAP = ("mon", "node")
"""Families whose head reads what is not the output of any of their layers."""


@dataclass(frozen=True)
class Subject:
    """A model that has seen one training batch, and a size of images that it takes."""

    model: Network
    size: tuple[int, int]

    @property
    def name(self) -> str:
        assert self.model.registry_name is not None
        return self.model.registry_name

    def copy(self) -> Network:
        return copy.deepcopy(self.model)

    def images(self, count: int) -> Tensor:
        return torch.randn(count, self.model.input_shape[0], *self.size)


def accepted_size(model: Network) -> tuple[int, int]:
    """Smaller than the model's own size where it takes that, to save time."""
    channels, height, width = model.input_shape
    factors = (1,) if height <= 8 else (2, 1) if height <= 32 else (4, 2, 1) if height < 512 else (8, 4)
    try:
        for factor in factors:
            size = height // factor, width // factor
            try:
                with torch.no_grad():
                    model.eval()(torch.zeros(1, channels, *size))
                return size
            except InputError:
                continue
        raise AssertionError(f"{model.registry_name} refuses its own input_shape")
    finally:
        model.train()


def prepared(name: str) -> Subject:
    torch.manual_seed(0)
    model = create_model(name)
    made = Subject(model, accepted_size(model))
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0  # after one batch, evaluation is to see activations of the usual size
    with torch.no_grad():
        model(made.images(2))
    for norm in norms:
        norm.momentum = 0.1
    return made


@pytest.fixture(
    scope="module",
    params=[
        *TINY,
        *SMALL,
        *(
            pytest.param(name, marks=pytest.mark.slow if name in BY_DAY else pytest.mark.nightly)
            for name in LARGE
        ),
    ],
)
def subject(request: pytest.FixtureRequest) -> Subject:
    """Made once for all tests of a model: the first solve of a large one takes seconds."""
    return prepared(request.param)


@pytest.fixture(
    scope="module", params=[*TINY, *SMALL, *(pytest.param(name, marks=pytest.mark.nightly) for name in LARGE)]
)
def affordable(request: pytest.FixtureRequest) -> Subject:
    """The same, where the large models of a family add minutes and little: they come by night."""
    return prepared(request.param)


def labels_for(logits: Tensor) -> Tensor:
    """One label per image, and for a segmenter the same in each pixel."""
    labels = torch.arange(logits.shape[0]) % logits.shape[1]
    return labels.view(-1, *(1 for _ in logits.shape[2:])).expand(-1, *logits.shape[2:])


def training_loss(model: Network, images: Tensor) -> Tensor:
    """Cross-entropy; for a network that restores images, the error to images of half the contrast."""
    outputs = model(images)
    if model.restores:
        return F.mse_loss(outputs, images / 2)
    return F.cross_entropy(outputs, labels_for(outputs))


def shape_of_logits(model: Network, images: Tensor) -> tuple[int, ...]:
    mask = tuple(images.shape[2:]) if model.labels_pixels else ()
    return (len(images), model.num_classes, *mask)


def assert_converged(model: Network) -> None:
    assert set(model.solutions()) == set(model.equilibria())
    for place, report in model.solutions().items():
        assert report.converged == 1.0, f"{place}: {report}"


def test_forward_in_training_and_evaluation(subject: Subject) -> None:
    assert_converged(subject.model)
    model, images = subject.copy(), subject.images(2)
    assert model(images).shape == shape_of_logits(model, images)
    assert_converged(model)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        first, second = model.eval()(images), model(images)
    assert_converged(model)
    assert first.shape == shape_of_logits(model, images)
    assert torch.isfinite(first).all()
    assert torch.equal(first, second), "evaluation is a function"
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), f"evaluation changes {key}"


def test_every_parameter_has_a_gradient(subject: Subject) -> None:
    model, images = subject.copy(), subject.images(2)
    training_loss(model, images).backward()
    for place, parameter in model.named_parameters():
        assert parameter.grad is not None, place
        assert torch.isfinite(parameter.grad).all(), place
        assert parameter.grad.abs().sum() > 0, place


def test_the_image_has_a_gradient_in_evaluation(affordable: Subject) -> None:
    model, images = affordable.copy().eval(), affordable.images(1).requires_grad_()
    model(images)[:, 0].sum().backward()
    assert images.grad is not None
    assert torch.isfinite(images.grad).all()
    assert images.grad.abs().sum() > 0


def test_a_prediction_does_not_depend_on_its_batch(affordable: Subject) -> None:
    model, images = affordable.copy().eval(), affordable.images(3)
    with torch.no_grad():
        together = model(images)
        alone = torch.cat([model(image[None]) for image in images])
    scale = together.abs().max().clamp_min(1.0)
    assert ((together - alone).abs().max() / scale).item() <= 1e-5


def test_saving_and_loading(subject: Subject, tmp_path: Path) -> None:
    model, images = subject.copy().eval(), subject.images(2)
    again = Network.from_pretrained(model.save_pretrained(tmp_path))
    assert type(again) is type(model)
    assert again.config == model.config
    assert again.registry_name == subject.name
    with torch.no_grad():
        assert torch.equal(again(images), model(images))
    for key, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key


def test_the_configuration_rebuilds_the_architecture(affordable: Subject) -> None:
    with torch.device("meta"):
        model = create_model(affordable.name)
        again = type(model)(model.config)
    shapes = {key: value.shape for key, value in model.state_dict().items()}
    assert {key: value.shape for key, value in again.state_dict().items()} == shapes
    assert str(again) == str(model) == str(affordable.copy().train())


def test_a_deep_copy_lives_on_its_own(affordable: Subject) -> None:
    model, images = affordable.copy(), affordable.images(2)
    model(images).sum().backward()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        expected = model.eval()(images)
        assert torch.equal(twin.eval()(images), expected)
        for parameter in twin.parameters():
            parameter.add_(0.1)
        assert torch.equal(model(images), expected)


def test_autocast_to_bfloat16(affordable: Subject) -> None:
    model, images = affordable.copy(), affordable.images(2)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(images)
        loss = F.cross_entropy(logits, labels_for(logits))
    assert torch.isfinite(logits).all()
    assert_converged(model)
    if (
        affordable.name in TINY
    ):  # most processors emulate bfloat16: the gradient of a large model takes a minute
        loss.backward()
        assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_energy_and_well_posedness(affordable: Subject) -> None:
    model, images = affordable.copy().eval(), affordable.images(2)
    cells = [layer.cell for layer in model.equilibria().values()]
    if cells and all(isinstance(cell, EnergyProblem) for cell in cells):
        with torch.no_grad():
            energy = model.energy(images)
            assert energy.shape == (2,)
            assert torch.isfinite(energy).all()
            torch.testing.assert_close(model.energy(images[:1]), energy[:1], rtol=1e-4, atol=1e-4)
    elif not model.equilibria():
        with pytest.raises(GeqError, match="no equilibrium"):
            model.energy(images)
    assert set(model.well_posedness()) == set(model.equilibria())


def seen_at(model: Network, place: FeatureMap, images: Tensor) -> tuple[Tensor, Tensor]:
    """A feature map, taken by a hook on its module, which must run once, and the logits."""
    seen: list[Any] = []
    handle = place.module.register_forward_hook(
        lambda module, given, output: seen.append(given[0] if place.at_input else output)
    )
    try:
        logits = model(images)
    finally:
        handle.remove()
    assert len(seen) == 1
    maps = seen[0] if place.part is None else seen[0][place.part]
    assert isinstance(maps, Tensor)
    return maps, logits


def test_the_last_feature_map_is_what_the_logits_come_from(affordable: Subject) -> None:
    model, images = affordable.copy().eval(), affordable.images(2)
    if model.labels_pixels or model.family in WITHOUT_LAST_MAP:
        error, words = (InputError, "geq predict") if model.labels_pixels else (OptionError, "--layer")
        with pytest.raises(error, match=words):
            model.last_feature_map()
        return
    place = model.last_feature_map()
    maps, logits = seen_at(model, place, images)
    assert maps.ndim == 4
    assert len(maps) == 2
    (gradient,) = torch.autograd.grad(logits.sum(), maps)
    assert torch.isfinite(gradient).all()
    assert gradient.abs().sum() > 0


def test_the_branches_are_the_equilibria(affordable: Subject) -> None:
    model, images = affordable.copy().eval(), affordable.images(2)
    places, equilibria = model.branch_feature_maps(), model.equilibria()
    assert {place.equilibrium for place in places} == set(equilibria)
    assert len({place.label for place in places}) == len(places)
    for place in places:
        assert place.equilibrium is not None
        assert place.module is equilibria[place.equilibrium]
        assert seen_at(model, place, images)[0].ndim == 4


def test_the_map_is_as_contractive_as_its_cell_answers(affordable: Subject) -> None:
    model, images = affordable.copy().double().eval(), affordable.images(2).double()
    equilibria = model.equilibria()
    inputs = model.inputs_of_equilibria(images) if equilibria else {}
    for name, layer in equilibria.items():
        size = layer.map_size(inputs[name])
        rate = layer.cell.contraction_rate(layer.well_posedness(size))
        if rate is None:
            continue
        assert 0 <= rate < 1
        with torch.no_grad():
            map_ = layer.cell.equation(inputs[name])
            start = map_.start()
            assert isinstance(start, Tensor)
            one, other = torch.randn_like(start), torch.randn_like(start)
            assert (map_(one) - map_(other)).norm() <= (rate + 1e-9) * (one - other).norm(), name


def test_a_network_says_whether_it_can_be_exported(affordable: Subject) -> None:
    reason = affordable.model.exportable()
    if not reason:
        refuse(affordable.model)
        return
    with pytest.raises(OptionError, match="cannot be exported") as problem:
        refuse(affordable.model)
    assert str(problem.value).startswith(reason)


@pytest.mark.parametrize(
    "name",
    [
        *TINY,
        *(
            pytest.param(name, marks=pytest.mark.slow if name in TRAINED_BY_DAY else pytest.mark.nightly)
            for name in SMALL
        ),
    ],
)
def test_twenty_steps_of_sgd(name: str) -> None:
    """The loss falls on one batch, and every equilibrium is still found."""
    model = create_model(name)
    images = torch.randn(8, model.input_shape[0], *accepted_size(model))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(20):
        loss = training_loss(model, images)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    model(images)
    assert_converged(model)
    with torch.no_grad():
        model.eval()(images)
    assert_converged(model)


COMPILE = """
import sys, warnings
import torch
from geq.model.model_registry import create_model

warnings.simplefilter("ignore")
for name in sys.argv[1:]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = create_model(name).eval()
    images = torch.randn(2, *model.input_shape)
    compiled = torch.compile(model, backend="aot_eager")
    torch.testing.assert_close(compiled(images), model(images), rtol=1e-4, atol=1e-4)
    compiled(images).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters()), name
    print(name)
"""


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(COMPILED_BY_DAY, marks=pytest.mark.slow),
        pytest.param([name for name in TINY if name not in COMPILED_BY_DAY], marks=pytest.mark.nightly),
    ],
    ids=["day", "night"],
)
def test_tiny_models_compile(names: list[str]) -> None:
    """In a process of its own: the run-time checks of types under pytest cannot be compiled."""
    done = subprocess.run([sys.executable, "-c", COMPILE, *names], capture_output=True, text=True)
    assert done.stdout.split() == names, done.stderr[-3000:]


def test_what_comes_by_day_exists() -> None:
    assert set(BY_DAY) <= set(LARGE)
    assert set(COMPILED_BY_DAY) <= set(TINY)
    assert set(TRAINED_BY_DAY) <= set(SMALL)
