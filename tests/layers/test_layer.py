"""Drop-in layers: shapes, formulas, errors, and a replaced block of a network."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import geq

IMAGE_LAYERS: dict[str, Callable[[], geq.Equilibrium]] = {
    "geq": lambda: geq.GEQ2d(3, 16, 8),
    "geq-default-mid": lambda: geq.GEQ2d(3, 20),
    "geq-5x5": lambda: geq.GEQ2d(3, 16, 8, kernel_size=5, patch=1, channel_split=2, hidden=4),
    "geq-control": lambda: geq.GEQ2d(3, 16, 8, gamma=geq.bandwidth.ZeroGamma()),
    "geq-unnormalised": lambda: geq.GEQ2d(3, 16, 8, normalise_input=False),
    "opteq": lambda: geq.OptEq2d(3, 16, 8),
    "opteq-sigmoid": lambda: geq.OptEq2d(3, 16, 8, kernel=geq.kernels.SigmoidKernel()),
    "opteq-polynomial": lambda: geq.OptEq2d(3, 16, kernel=geq.kernels.PolynomialKernel(2)),
}
VECTOR_LAYERS: dict[str, Callable[[], geq.Equilibrium]] = {
    "geq": lambda: geq.GEQLinear(5, 16),
    "geq-normalised": lambda: geq.GEQLinear(5, 16, 4, normalise_input=True),
    "opteq": lambda: geq.OptEqLinear(5, 16),
    "opteq-one": lambda: geq.OptEqLinear(5, 1),
}


@pytest.mark.parametrize("name", IMAGE_LAYERS)
@pytest.mark.parametrize("height, width", [(4, 4), (8, 8), (6, 10)])
def test_maps_keep_their_size_and_every_parameter_learns(name: str, height: int, width: int) -> None:
    layer = IMAGE_LAYERS[name]()
    x = torch.randn(4, 3, height, width, requires_grad=True)
    z = layer(x)
    assert z.shape[0] == 4
    assert z.shape[2:] == (height, width)
    assert layer.last_solution is not None
    assert layer.last_solution.converged.all()
    (z * torch.randn_like(z)).sum().backward()
    for parameter_name, parameter in layer.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.any(), parameter_name
    assert x.grad is not None
    assert x.grad.any()


@pytest.mark.parametrize("name", VECTOR_LAYERS)
def test_vectors(name: str) -> None:
    layer = VECTOR_LAYERS[name]()
    z = layer(torch.randn(6, 5))
    assert z.shape[0] == 6
    z.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


def test_geq2d_is_its_formula() -> None:
    """z = σ(Wᵀ unpatch(β d W_hW_hᵀ)), written with unfolded loops."""
    torch.manual_seed(0)
    layer = geq.GEQ2d(2, 12, 4, patch=2, channel_split=2, hidden=5, gamma=0.05, tol=1e-12, max_steps=200)
    layer = layer.double().eval()
    x = torch.randn(2, 2, 4, 4, dtype=torch.float64)
    with torch.no_grad():
        z = layer(x)
        problem = layer.problem
        v, weight = problem.U(x), problem.W.effective_weight((4, 4))
        projection = problem.kernel.projection
        d = v - F.conv2d(z, weight, padding=1)
        m = torch.zeros_like(d)
        for b in range(2):
            for group in (0, 2):
                for row in (0, 2):
                    for column in (0, 2):
                        at = (b, slice(group, group + 2), slice(row, row + 2), slice(column, column + 2))
                        hidden = d[at].reshape(-1) @ projection
                        beta = torch.exp(-0.05 * hidden @ hidden)
                        m[at] = (beta * hidden @ projection.t()).view(2, 2, 2)
        image = F.conv_transpose2d(m, weight, padding=1).relu()
    torch.testing.assert_close(z, image, rtol=1e-9, atol=1e-11)


def test_opteq_linear_is_its_formula() -> None:
    layer = geq.OptEqLinear(5, 8, tol=1e-12, max_steps=300).double().eval()
    x = torch.randn(3, 5, dtype=torch.float64)
    with torch.no_grad():
        z = layer(x)
        W, v = layer.problem.W.weight, layer.problem.U(x)
        torch.testing.assert_close(z, (z @ W.t() @ W + v).relu(), rtol=1e-9, atol=1e-10)


def test_replaces_a_block_of_a_network_and_trains() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Identity(), nn.AdaptiveAvgPool2d(1)
    )
    network[3] = nn.Sequential(geq.GEQ2d(8, 16), nn.BatchNorm2d(16), nn.ReLU())
    model = nn.Sequential(network, nn.Flatten(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(32, 1, 8, 8)
    x[16:, :, :, :4] += 1.5
    y = torch.arange(32) // 16
    losses = []
    for _ in range(25):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize(
    "build, message",
    [
        (
            lambda: geq.GEQ2d(3, 16, 12),
            "mid_channels must be a multiple of channel_split: got 12 and 8; use 16",
        ),
        (lambda: geq.GEQ2d(0, 16), "positive channel counts"),
        (lambda: geq.GEQ2d(3, 16, kernel_size=2), "kernel_size must be odd"),
        (lambda: geq.GEQ2d(3, 16, gamma=-1.0), "gamma must be finite and not negative"),
        (lambda: geq.GEQ2d(3, 16, patch=0), "patch must be at least 1"),
        (lambda: geq.GEQ2d(3, 16, hiden=3), "did you mean 'hidden'"),
        (lambda: geq.OptEq2d(3, 16, kernel=geq.kernels.GaussianKernel()), "inner-product kernel"),
        (lambda: geq.OptEqLinear(3, 16, kernel=geq.kernels.GaussianKernel()), "inner-product kernel"),
        (lambda: geq.GEQLinear(3, 0), "positive channel counts"),
    ],
)
def test_bad_options(build: Callable[[], object], message: str) -> None:
    with pytest.raises(geq.errors.OptionError, match=message):
        build()


@pytest.mark.parametrize(
    "x, message",
    [
        (torch.randn(2, 3, 7, 8), "patch must divide the feature map: got patch 2 on a 7×8 map; use one of"),
        (torch.randn(2, 4, 8, 8), r"must be \(batch, 3, height, width\): got \(2, 4, 8, 8\)"),
        (torch.randn(3, 8, 8), "must be"),
        (torch.full((2, 3, 8, 8), torch.nan), "x must be finite"),
    ],
)
def test_bad_input(x: Tensor, message: str) -> None:
    with pytest.raises(geq.errors.InputError, match=message):
        geq.GEQ2d(3, 16)(x)
