"""The networks around Deep OptEq: their options, their parts, and what they refuse."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import geq
from geq.model.deep_opteq import ACTIVATIONS, DeepOptEq
from geq.model.model_registry import create_model
from geq.model.opteq_imagenet import OptEqImageNet, OptEqImageNetConfig
from geq.operators import SeparableConvolution
from geq.penalties import penalty_of
from geq.regularizers import Decorrelation


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_by_name(activation: str) -> None:
    model = create_model("deep_opteq_tiny", activation=activation)
    model(torch.randn(2, 1, 8, 8)).sum().backward()
    (report,) = model.solutions().values()
    assert report.converged == 1.0
    used = model.equilibrium.cell.layers[0].penalty
    s = torch.randn(2, 5)
    torch.testing.assert_close(used.prox(s), penalty_of(ACTIVATIONS[activation]).prox(s))


def test_options_reach_the_layer() -> None:
    model = create_model(
        "deep_opteq_tiny",
        alpha=0.5,
        learn_alpha=True,
        bound=0.7,
        tol=1e-2,
        max_steps=17,
        memory=3,
        gradient="unrolled",
        gradient_steps=4,
        regulariser="decorrelation",
        regulariser_weight=0.02,
    )
    assert isinstance(model, DeepOptEq)
    layer = model.equilibrium
    assert layer.gradient == geq.gradients.Unrolled(4)
    assert layer.solver == geq.solvers.Anderson(3)
    assert (layer.tol, layer.max_steps) == (1e-2, 17)
    assert isinstance(layer.cell.regulariser, Decorrelation)
    assert layer.cell.regulariser_step == 0.02
    assert [unit.W.constraint.bound for unit in layer.cell.units] == [0.7] * 3
    assert [float(unit.alpha.detach()) for unit in layer.cell.units] == pytest.approx([0.5] * 3)
    model(torch.randn(3, 1, 8, 8)).sum().backward()
    assert all(unit.raw_alpha.grad for unit in layer.cell.units)


def test_sam_follows_the_regulariser_instead_of_the_problem() -> None:
    model = create_model("deep_opteq_tiny", gradient="averaging", regulariser="decay", gradient_steps=3)
    assert model.equilibrium.cell.regulariser is None
    assert isinstance(model.equilibrium.gradient, geq.gradients.SequentialAveraging)
    model(torch.randn(2, 1, 8, 8)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_solve_starts_at_the_extracted_features() -> None:
    model = create_model("deep_opteq_tiny").eval()
    x = model.extractor(torch.randn(2, 1, 8, 8)).detach()
    cell = model.equilibrium.cell
    assert torch.equal(cell.initial_state(cell.inject(x)), x)


def test_the_paper_parts_of_the_cifar_models() -> None:
    """Channels as printed, one convolution before the 162k model."""
    with torch.device("meta"):
        models = {size: create_model(f"opteq_cifar_{size}") for size in ("199k", "162k", "1m4")}
    widths = {name: [u.W.out_channels for u in m.equilibrium.cell.units] for name, m in models.items()}
    assert widths["199k"] == [16, 32, 64, 128, 128]
    assert widths["162k"] == [16, 32, 64, 64, 128]
    assert len(widths["1m4"]) == 5
    assert sum(isinstance(part, nn.Conv2d) for part in models["162k"].extractor) == 1


def test_the_imagenet_models_have_separable_layers_on_28_pixels() -> None:
    with torch.device("meta"):
        small, middle = (create_model(f"opteq_imagenet_{size}") for size in ("small", "middle"))
        assert middle.extractor(torch.empty(1, 3, 224, 224)).shape == (1, 512, 28, 28)
    assert [2 * unit.W.margin + 1 for unit in small.equilibrium.cell.units] == [3] * 5
    assert [2 * unit.W.margin + 1 for unit in middle.equilibrium.cell.units] == [5, 3] * 3
    assert all(isinstance(unit.W, SeparableConvolution) for unit in middle.equilibrium.cell.units)
    # Three stages of torchvision's resnet50 and wide_resnet50_2 and the 1×1 convolution with its norm.
    for model, stages in ((small, 8_543_296), (middle, 24_862_528)):
        count = sum(p.numel() for p in model.extractor.parameters())
        assert count == stages + 1024 * 512 + 2 * 512


def test_the_imagenet_network_in_small() -> None:
    """The same class with a few channels: forward, backward, any size of image, learned α."""
    config = OptEqImageNetConfig(
        (3, 32, 32),
        depths=(1, 1),
        widths=(4, 8),
        channels=(6, 5),
        kernel_sizes=(5, 3),
        separable=True,
        learn_alpha=True,
        state_channels=8,
        head_channels=(12, 16),
    )
    model = OptEqImageNet(config)
    for size in (32, 56):
        logits = model(torch.randn(2, 3, size, size))
        assert logits.shape == (2, 10)
    logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    (report,) = model.solutions().values()
    assert report.converged == 1.0
    assert model.multiply_adds() > 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"alpha": 0.0}, r"α must lie in \(0, 1\]: got 0.0"),
        ({"kernel_sizes": ()}, "kernel_sizes must have one number"),
        ({"kernel_sizes": (3, 3)}, r"one per layer \(3\)"),
        ({"extractor": ()}, "one entry per convolution"),
        ({"extractor_kernel": 4}, "an odd kernel"),
        ({"gradient": "unrolled", "gradient_steps": 0}, "steps must be at least 1"),
    ],
)
def test_bad_options(options: dict[str, object], told: str) -> None:
    with pytest.raises(geq.errors.OptionError, match=told):
        create_model("deep_opteq_tiny", **options)


@pytest.mark.parametrize(
    ("options", "told"),
    [({"depths": (1,)}, "as many positive numbers"), ({"head_channels": ()}, "head_channels must have one")],
)
def test_bad_options_of_the_imagenet_network(options: dict[str, object], told: str) -> None:
    with pytest.raises(geq.errors.OptionError, match=told):
        create_model("opteq_imagenet_small", **options)
