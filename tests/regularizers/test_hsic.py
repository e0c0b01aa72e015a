"""HSIC against its definition, and random Fourier features against the exact kernel."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from torch import Tensor

import geq


def literal(z: Tensor, bandwidth: float) -> Tensor:
    """The paper's formula, pair by pair."""
    batch = z.shape[0]
    centre = torch.eye(batch, dtype=z.dtype) - 1 / batch
    rows = z.transpose(0, 1).reshape(z.shape[1], batch, -1)
    total = z.new_zeros(())
    for first, second in combinations(rows, 2):
        kernels = [
            torch.exp(-torch.cdist(a, a).square() / (2 * bandwidth**2 * a.shape[1])) for a in (first, second)
        ]
        total = total + (kernels[0] @ centre @ kernels[1] @ centre).trace() / (batch - 1) ** 2
    return total


def state(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize("shape", [(6, 4), (5, 3, 2, 2)])
@pytest.mark.parametrize("bandwidth", [0.5, 2.0])
def test_value_is_the_sum_over_pairs(shape: tuple[int, ...], bandwidth: float) -> None:
    z = state(*shape)
    torch.testing.assert_close(
        geq.regularizers.HSIC(bandwidth, relative=False).value(z), literal(z, bandwidth)
    )
    rows = z.transpose(0, 1).flatten(1)
    deviation = (z - z.mean(0)).transpose(0, 1).flatten(1).square().mean(1).sqrt()
    standardised = (rows / deviation.unsqueeze(1)).view(shape[1], shape[0], *shape[2:]).transpose(0, 1)
    expected = literal(standardised, bandwidth)
    torch.testing.assert_close(geq.regularizers.HSIC(bandwidth).value(z), expected, rtol=1e-4, atol=0)


def test_scale_of_a_feature_matters_only_to_a_fixed_bandwidth() -> None:
    z = state(20, 3)
    z[:, 1] = z[:, 0].square()
    scaled = z * torch.tensor([0.05, 1.0, 20.0])
    torch.testing.assert_close(
        geq.regularizers.HSIC().value(scaled), geq.regularizers.HSIC().value(z), rtol=1e-3, atol=0
    )
    fixed = geq.regularizers.HSIC(relative=False)
    assert fixed.value(0.05 * z) < 1e-3 * fixed.value(z)


def test_a_dead_feature_depends_on_nothing() -> None:
    z = state(6, 4)
    z[:, 1] = 0.3
    torch.testing.assert_close(
        geq.regularizers.HSIC().value(z), geq.regularizers.HSIC().value(z[:, [0, 2, 3]])
    )
    assert torch.isfinite(geq.regularizers.HSIC().gradient(z)).all()


@pytest.mark.parametrize("shape", [(30, 3), (8, 3, 2, 2), (4, 6)])
def test_fourier_features_tend_to_the_exact_value(shape: tuple[int, ...]) -> None:
    z = state(*shape)
    z[:, 1] = z[:, 0] + 0.1 * z[:, 1]
    exact = geq.regularizers.HSIC().value(z)

    def error(frequencies: int) -> float:
        found = [geq.regularizers.HSIC(fourier=frequencies, seed=seed).value(z) for seed in range(8)]
        return float((torch.stack(found) - exact).square().mean().sqrt() / exact)

    few, many = error(50), error(5000)
    assert many < 0.03
    assert 3 < few / many < 30  # the error falls like 1/√D: by 10 here


def test_fourier_gradient_tends_to_the_exact_one() -> None:
    z = state(20, 3)
    z[:, 1] = z[:, 0] + 0.1 * z[:, 1]
    exact, approximate = geq.regularizers.HSIC().gradient(z), geq.regularizers.HSIC(fourier=5000).gradient(z)
    assert (approximate - exact).norm() < 0.05 * exact.norm()


def test_dependence_without_correlation_is_seen() -> None:
    x = torch.linspace(-1, 1, 101, dtype=torch.float64)
    square = torch.stack((x, x.square() - x.square().mean()), 1)
    independent = torch.cartesian_prod(x[::10], square[::10, 1])
    assert geq.regularizers.Decorrelation().value(square) < 1e-20
    assert geq.regularizers.HSIC(0.3).value(square) > 1e-3
    assert geq.regularizers.HSIC(0.3).value(independent) < 1e-20


def test_a_large_common_offset_does_not_cost_precision() -> None:
    z = state(6, 4).float()
    torch.testing.assert_close(
        geq.regularizers.HSIC().value(z + 1000), geq.regularizers.HSIC().value(z), rtol=1e-3, atol=0
    )


def test_frequencies_are_the_same_in_every_evaluation() -> None:
    z = state(6, 4)
    assert geq.regularizers.HSIC(fourier=5).value(z) == geq.regularizers.HSIC(fourier=5).value(z)
    assert geq.regularizers.HSIC(fourier=5).value(z) != geq.regularizers.HSIC(fourier=5, seed=1).value(z)


def test_bad_options_are_refused() -> None:
    with pytest.raises(geq.errors.OptionError, match="bandwidth must be above 0: got 0"):
        geq.regularizers.HSIC(0.0)
    with pytest.raises(geq.errors.OptionError, match="fourier must be at least 1 frequency: got 0"):
        geq.regularizers.HSIC(fourier=0)
