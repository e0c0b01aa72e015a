"""β and energy of patches against the layer's own attention and objective."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from geq.analysis.attention_map import attention_maps, energy_map
from geq.bandwidth import ZeroGamma
from geq.equilibrium import Equilibrium
from geq.kernels import PolynomialKernel
from geq.layers import DeepOptEq2d, GEQ2d, OptEq2d


def inputs() -> Tensor:
    return torch.randn(2, 3, 8, 8, dtype=torch.float64)


def tight(layer: Equilibrium) -> Equilibrium:
    layer.tol, layer.max_steps = 1e-10, 500
    return layer.double().eval()


@pytest.mark.parametrize("patch", [1, 2, 4])
def test_patches_of_the_gaussian_kernel(patch: int) -> None:
    layer, x = tight(GEQ2d(3, 16, patch=patch, gamma=0.05)), inputs()
    found = attention_maps(layer, x)
    beta = layer.attention(x)
    assert found.mean is not None
    assert found.least is not None
    assert found.energy is not None
    assert found.missing == ""
    assert found.mean.shape == found.energy.shape == (2, 8 // patch, 8 // patch)
    torch.testing.assert_close(found.mean, beta.mean(1))
    torch.testing.assert_close(found.least, beta.min(1).values)
    torch.testing.assert_close(found.energy.sum((1, 2)), layer.energy(x).detach())


def test_a_patch_knows_nothing_of_the_others() -> None:
    """The share of a patch is the objective of a map where everything else is taken away."""
    layer, x = tight(GEQ2d(3, 16, patch=2, gamma=0.05)), inputs()
    problem = layer.problem
    c = problem.inject(x)
    z = torch.rand(2, 16, 8, 8, dtype=torch.float64)
    shares = energy_map(problem, z, c)
    assert shares is not None
    q = c.distances(c.W(z)).view(2, 1, 4, 4)
    expected = 0.5 * z[:, :, 2:4, 4:6].square().sum((1, 2, 3)) - torch.exp(-0.05 * q[:, 0, 1, 2]) / 0.1
    torch.testing.assert_close(shares[:, 1, 2], expected)


@pytest.mark.parametrize("layer", [GEQ2d(3, 16, gamma=ZeroGamma()), OptEq2d(3, 16)], ids=["zero", "linear"])
def test_energies_of_other_kernels_sum_up(layer: Equilibrium) -> None:
    x = inputs()
    found = attention_maps(tight(layer), x)
    assert found.energy is not None
    torch.testing.assert_close(found.energy.sum((1, 2)), layer.energy(x).detach())


def test_what_is_missing_is_said() -> None:
    x = inputs()
    linear = attention_maps(tight(OptEq2d(3, 16)), x)
    assert linear.mean is None
    assert linear.missing == "the kernel LinearKernel has no β of patches"
    coupled = attention_maps(tight(OptEq2d(3, 16, kernel=PolynomialKernel(2))), 0.1 * x)
    assert coupled.energy is None
    assert "no sum over places" in coupled.missing
    deep = attention_maps(tight(DeepOptEq2d(3, (8, 8))), x)
    assert deep.mean is deep.least is deep.energy is None
    assert "neither β nor an energy" in deep.missing
