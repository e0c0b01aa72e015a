"""Cascades: each equilibrium takes the one before it as input."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from geq.errors import OptionError
from geq.model.branch_network import BranchConfig, BranchNetwork
from geq.model.model_registry import create_model, model_spec


def cascade(**changes: object) -> BranchNetwork:
    config = model_spec("geq_tiny").config
    assert isinstance(config, BranchConfig)
    return (
        BranchNetwork(replace(config, topology="cascade", tol=1e-10, gradient_tol=1e-10, **changes))
        .double()
        .eval()
    )


@pytest.fixture
def images() -> Tensor:
    return torch.randn(3, 1, 8, 8, dtype=torch.float64)


def test_is_the_composition_of_its_equilibria(images: Tensor) -> None:
    network = cascade(scales=(8, 4, 2), mid_channels=(16, 8, 16), patch=2, pool=2)
    x = network.stem(images)
    for number, pooled in enumerate((1, 2, 2)):
        x = torch.nn.functional.avg_pool2d(x, pooled)
        z = network.branches[number](x)
        if number < 2:
            x = network.between[number][0](z).clamp_min(0)
    expected = network.head(
        torch.nn.functional.adaptive_avg_pool2d(network.norm(z).clamp_min(0), 2).flatten(1)
    )
    assert torch.allclose(network(images), expected, rtol=0, atol=1e-12)


def test_gradient_passes_through_all_of_them(images: Tensor) -> None:
    """Against a difference of the loss along a random direction of the first equilibrium's weights."""
    network = cascade()
    weight = network.branches[0].problem.U.linear.raw_weight
    network(images).square().sum().backward()
    direction = torch.randn_like(weight)
    slope = float((weight.grad * direction).sum())
    losses = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            weight += step * direction
            losses.append(float(network(images).square().sum()))
            weight -= step * direction
    assert slope == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-4)


def test_scales_must_divide_each_other() -> None:
    with pytest.raises(OptionError, match=r"divide the one before it.*got 4, then 8"):
        cascade(scales=(4, 8))


def test_old_files_are_parallel() -> None:
    """The field came later: what was saved without it is what it was."""
    network = create_model("geq_tiny")
    assert isinstance(network, BranchNetwork)
    assert network.config.topology == "parallel"
    assert not network.between
    assert not any("between" in name for name in network.state_dict())
