"""ResNets, the plain DNN and Neural ODEs against what defines them."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchdiffeq import odeint

from geq.errors import InputError, MissingExtraError, OptionError
from geq.model.model_registry import create_model
from geq.model.residual_block import ResidualBlock, basic_block, bottleneck_block
from geq_papers.model.dnn import DNN, DNNConfig
from geq_papers.model.node import NeuralODE, NeuralODEConfig
from geq_papers.model.resnet import ResNet, ResNetConfig


def test_the_stems_differ_in_resolution() -> None:
    for stem, side in (("imagenet", 8), ("cifar", 32)):
        config = ResNetConfig((3, 32, 32), depths=(1, 1), widths=(4, 8), stem=stem)
        assert ResNet(config).stem(torch.zeros(1, 3, 32, 32)).shape == (1, 4, side, side)


def test_each_later_stage_halves_the_resolution() -> None:
    model = ResNet(ResNetConfig((3, 32, 32), depths=(2, 1, 1), widths=(4, 6, 8), block="bottleneck"))
    features = model.stem(torch.zeros(1, 3, 32, 32))
    shapes = []
    for stage in model.stages:
        features = stage(features)
        shapes.append(tuple(features.shape[1:]))
    assert shapes == [(16, 32, 32), (24, 16, 16), (32, 8, 8)]


@pytest.mark.parametrize("block", [basic_block(6, 6, 1), bottleneck_block(8, 2, 1, 1)])
def test_a_block_adds_its_branch_to_its_input(block: ResidualBlock) -> None:
    block.eval()
    x = torch.randn(2, block.branch[0].in_channels, 4, 4)
    assert isinstance(block.shortcut, nn.Identity)
    assert torch.equal(block(x), F.relu(x + block.branch(x)))
    nn.init.zeros_(block.branch[-1].weight)
    assert torch.equal(block(x), F.relu(x))


def test_convolutions_start_with_he_variance() -> None:
    weight = create_model("resnet18_cifar").get_parameter("stages.2.1.branch.0.weight")
    assert weight.var().item() == pytest.approx(2 / (9 * 256), rel=0.02)


@pytest.mark.parametrize(
    "options",
    [{"depths": (1, 1)}, {"depths": (0,)}, {"inner": 2}],
)
def test_impossible_resnets(options: dict) -> None:
    with pytest.raises(OptionError):
        ResNetConfig((3, 32, 32), **{"depths": (1,), "widths": (4,), **options})


def test_the_dnn_is_equation_1() -> None:
    config = DNNConfig((1, 8, 8), extractor=3, channels=(4, 5, 6), strides=(1, 2, 1))
    model = DNN(config).double().eval()
    image = torch.randn(2, 1, 8, 8, dtype=torch.float64)
    x = model.extractor(image)
    first, second, third = model.layers
    assert first.from_state is None
    z = F.relu(first.norm(first.from_input(x)))
    x = F.avg_pool2d(x, 2)
    z = F.relu(second.norm(F.conv2d(z, second.from_state.weight, stride=2, padding=1) + second.from_input(x)))
    z = F.relu(third.norm(third.from_state(z) + third.from_input(x)))
    torch.testing.assert_close(model(image), model.head(z.mean((2, 3))))


def test_the_dnn_takes_odd_sizes() -> None:
    model = create_model("dnn_tiny").eval()
    assert model(torch.randn(2, 1, 7, 9)).shape == (2, 10)


@pytest.mark.parametrize("options", [{"strides": (1,)}, {"strides": (1, 3)}, {"extractor": 0}])
def test_impossible_dnns(options: dict) -> None:
    with pytest.raises(OptionError):
        DNNConfig((1, 8, 8), **{"extractor": 2, "channels": (4, 4), "strides": (1, 1), **options})


@pytest.fixture
def ode() -> NeuralODE:
    return NeuralODE(NeuralODEConfig((2, 6, 6), filters=8, extra_channels=3, num_classes=4)).double()


def test_the_flow_solves_the_ode(ode: NeuralODE) -> None:
    """Against an adaptive solution to 1e-9, and with the fourth-order decay of the error."""
    image = torch.randn(2, 2, 6, 6, dtype=torch.float64)
    z = ode.initial_state(image)
    assert z.shape == (2, 5, 6, 6)
    assert torch.equal(z[:, :2], image)
    assert not z[:, 2:].any()
    with torch.no_grad():
        for parameter in ode.field.parameters():
            parameter.mul_(1.5)
        exact = odeint(ode.field, z, torch.tensor([0.0, 1.0], dtype=torch.float64), rtol=1e-9, atol=1e-9)[-1]
        errors = []
        for steps in (4, 32):
            model = NeuralODE(
                NeuralODEConfig((2, 6, 6), filters=8, extra_channels=3, num_classes=4, steps=steps)
            )
            model = model.double()
            model.load_state_dict(ode.state_dict())
            errors.append((model.flow(z) - exact).norm().item() / (exact - z).norm().item())
    assert errors[0] < 1e-3
    assert errors[1] < errors[0] / 8, "ReLU's kinks cost some of the fourth order, not all of it"


def test_a_linear_flow_is_the_matrix_exponential() -> None:
    """With the ReLUs always open the field is affine in z, and 1×1 maps make it one matrix per pixel."""
    ode = NeuralODE(NeuralODEConfig((2, 1, 1), filters=2, num_classes=2, steps=20)).double()
    with torch.no_grad():
        for layer in (ode.field.down, ode.field.mix):
            layer.weight.mul_(0.1)
            layer.bias.fill_(10.0)
        ode.field.mix.bias.fill_(20.0)
        down, up = ode.field.down.weight[:, :, 0, 0], ode.field.up.weight[:, :, 0, 0]
        mix = ode.field.mix.weight[:, :, 1, 1]
        A = up @ mix @ down
        b = up @ (mix @ ode.field.down.bias + ode.field.mix.bias) + ode.field.up.bias
        z = torch.randn(3, 2, dtype=torch.float64)
        block = torch.zeros(3, 3, dtype=torch.float64)
        block[:2, :2], block[:2, 2] = A, b
        exact = torch.cat([z, torch.ones(3, 1, dtype=torch.float64)], 1) @ torch.matrix_exp(block).T
        torch.testing.assert_close(
            ode.flow(z[:, :, None, None])[:, :, 0, 0], exact[:, :2], rtol=1e-9, atol=1e-9
        )


def gradient_of(image: Tensor, steps: int, adjoint: bool) -> Tensor:
    torch.manual_seed(1)
    config = NeuralODEConfig((1, 4, 4), filters=4, num_classes=3, steps=steps, adjoint=adjoint)
    model = NeuralODE(config).double()
    model(image).square().sum().backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def test_the_adjoint_gradient_tends_to_the_direct_one() -> None:
    image = torch.randn(2, 1, 4, 4, dtype=torch.float64)
    differences = [
        (gradient_of(image, steps, True) - gradient_of(image, steps, False)).norm().item()
        for steps in (1, 32)
    ]
    assert gradient_of(image, 32, False).norm() > 0.1
    assert differences[0] > 1e-7, (
        "one step is too coarse for the adjoint equation, so the two ways are two ways"
    )
    assert differences[1] < 1e-7


def test_the_adaptive_solver_finds_the_same_flow() -> None:
    config = NeuralODEConfig((1, 4, 4), filters=4, num_classes=3, steps=32)
    fixed = NeuralODE(config).double()
    adaptive = NeuralODE(replace(config, method="dopri5", tolerance=1e-7)).double()
    adaptive.load_state_dict(fixed.state_dict())
    image = torch.randn(2, 1, 4, 4, dtype=torch.float64)
    torch.testing.assert_close(adaptive(image), fixed(image), rtol=1e-5, atol=1e-6)


def test_the_head_of_a_neural_ode_needs_its_size(ode: NeuralODE) -> None:
    with pytest.raises(InputError, match=r"images must be 6×6; got \(8, 8\).*input_shape=\(2, 8, 8\)"):
        ode(torch.zeros(1, 2, 8, 8, dtype=torch.float64))


def test_without_torchdiffeq_the_extra_is_named(ode: NeuralODE, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchdiffeq", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'geq-papers\[baselines\]'"):
        ode(torch.zeros(1, 2, 6, 6, dtype=torch.float64))


@pytest.mark.parametrize("options", [{"filters": 0}, {"steps": 0}, {"tolerance": 0.0}])
def test_impossible_neural_odes(options: dict) -> None:
    with pytest.raises(OptionError):
        NeuralODEConfig((1, 4, 4), **{"filters": 4, **options})


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("resnet18", 1.81e9),
        ("resnet34", 3.66e9),
        ("resnet50", 4.09e9),
        ("resnet101", 7.80e9),
        ("wide_resnet50", 11.4e9),
    ],
)
def test_multiply_adds_equal_torchvisions(name: str, printed: float) -> None:
    with torch.device("meta"):
        model = create_model(name)
    assert model.multiply_adds() == pytest.approx(printed, rel=0.005)
    assert model.training, "counting leaves the mode as it was"


def test_multiply_adds_of_an_ode_are_those_of_its_field() -> None:
    per_pixel = 3 * 45 + 9 * 45 * 45 + 45 * 3
    assert create_model("node_small").multiply_adds() == 32 * 32 * per_pixel
