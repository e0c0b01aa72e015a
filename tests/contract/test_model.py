"""What every registered model must do; a new one is tested by being in the registry."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from geq.error import GeqError
from geq.model.network import Network
from geq.model.registry import create_model, list_models

NAMES = list_models()
TINY = [name for name in NAMES if "_tiny" in name]
SMALL = [name for name in NAMES if "_small" in name and "_200k" not in name]
LARGE = [name for name in NAMES if name not in TINY + SMALL]

every_model = pytest.mark.parametrize(
    "name", [*TINY, *SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)]
)
trainable_models = pytest.mark.parametrize(
    "name", [*TINY, *(pytest.param(name, marks=pytest.mark.slow) for name in SMALL)]
)

ENERGY_FAMILIES = ("geq_", "kerdeq_", "opteq_", "mopteq_")


def images_for(model: Network, count: int) -> Tensor:
    """Random images: small ones where the model takes them, of its own size otherwise."""
    channels, height, width = model.input_shape
    factor = 1 if height <= 8 else 2 if height <= 32 else 4
    try:
        with torch.no_grad():
            copy.deepcopy(model).eval()(torch.zeros(1, channels, height // factor, width // factor))
    except GeqError:
        factor = 1
    return torch.randn(count, channels, height // factor, width // factor)


def labels_for(model: Network, count: int) -> Tensor:
    return torch.arange(count) % model.num_classes


def assert_converged(model: Network) -> None:
    for place, report in model.solutions().items():
        assert report.converged == 1.0, f"{place}: {report}"


@every_model
def test_forward_in_training_and_evaluation(name: str) -> None:
    model = create_model(name)
    images = images_for(model, 2)
    assert model.train()(images).shape == (2, model.num_classes)
    assert_converged(model)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        first, second = model.eval()(images), model(images)
    assert_converged(model)
    assert first.shape == (2, model.num_classes)
    assert torch.isfinite(first).all()
    assert torch.equal(first, second), "evaluation is a function"
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items()), (
        "and changes nothing"
    )
    assert set(model.solutions()) == set(model.equilibria())


@every_model
def test_every_parameter_has_a_gradient(name: str) -> None:
    model = create_model(name)
    images = images_for(model, 4 if name in TINY + SMALL else 2)
    F.cross_entropy(model(images), labels_for(model, len(images))).backward()
    for place, parameter in model.named_parameters():
        assert parameter.grad is not None, place
        assert torch.isfinite(parameter.grad).all(), place
        assert parameter.grad.abs().sum() > 0, place


@every_model
def test_the_image_has_a_gradient_in_evaluation(name: str) -> None:
    model = create_model(name).eval()
    images = images_for(model, 1).requires_grad_()
    model(images)[:, 0].sum().backward()
    assert images.grad is not None
    assert torch.isfinite(images.grad).all()
    assert images.grad.abs().sum() > 0


@every_model
def test_a_prediction_does_not_depend_on_its_batch(name: str) -> None:
    model = create_model(name)
    images = images_for(model, 3)
    with torch.no_grad():
        model(images)  # gives batch norms statistics of their own
        model.eval()
        together = model(images)
        alone = torch.cat([model(image[None]) for image in images])
    scale = together.abs().max().clamp_min(1.0)
    assert ((together - alone).abs().max() / scale).item() <= 1e-5


@trainable_models
def test_twenty_steps_of_sgd(name: str) -> None:
    """The loss falls on one batch, and every equilibrium is still found."""
    model = create_model(name)
    images = images_for(model, 16)
    labels = labels_for(model, 16)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(20):
        loss = F.cross_entropy(model(images), labels)
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


@every_model
def test_saving_and_loading(name: str, tmp_path: Path) -> None:
    model = create_model(name, num_classes=7)
    images = images_for(model, 2)
    with torch.no_grad():
        model(images)
        expected = model.eval()(images)
        again = Network.from_pretrained(model.save_pretrained(tmp_path))
        assert type(again) is type(model)
        assert again.config == model.config
        assert again.registry_name == name
        assert torch.equal(again(images), expected)
    for key, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key


@every_model
def test_the_configuration_rebuilds_the_architecture(name: str) -> None:
    with torch.device("meta"):
        model = create_model(name)
        again = type(model)(model.config)
    assert {key: value.shape for key, value in again.state_dict().items()} == {
        key: value.shape for key, value in model.state_dict().items()
    }
    assert str(again) == str(model)


@every_model
def test_a_deep_copy_lives_on_its_own(name: str) -> None:
    model = create_model(name)
    images = images_for(model, 2)
    model(images).sum().backward()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        expected = model.eval()(images)
        assert torch.equal(twin.eval()(images), expected)
        for parameter in twin.parameters():
            parameter.add_(0.1)
        assert torch.equal(model(images), expected)


COMPILE = """
import sys, warnings
import torch
from geq.model.registry import create_model

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


@pytest.mark.slow
def test_tiny_models_compile() -> None:
    """In a process of its own: the run-time checks of types under pytest cannot be compiled."""
    done = subprocess.run([sys.executable, "-c", COMPILE, *TINY], capture_output=True, text=True)
    assert done.stdout.split() == TINY, done.stderr[-3000:]


@every_model
def test_autocast_to_bfloat16(name: str) -> None:
    model = create_model(name)
    images = images_for(model, 2)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(images)
        loss = F.cross_entropy(logits, labels_for(model, 2))
    loss.backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        model.eval()(images)
    assert_converged(model)


@every_model
def test_energy_and_well_posedness(name: str) -> None:
    model = create_model(name).eval()
    images = images_for(model, 2)
    if name.startswith(ENERGY_FAMILIES):
        with torch.no_grad():
            energy = model.energy(images)
            assert energy.shape == (2,)
            assert torch.isfinite(energy).all()
            torch.testing.assert_close(model.energy(images[:1]), energy[:1], rtol=1e-4, atol=1e-4)
    elif not model.equilibria():
        with pytest.raises(GeqError, match="no equilibrium"):
            model.energy(images)
    assert set(model.well_posedness()) == set(model.equilibria())
