"""Proposition 1: truncated feature maps against the kernel, and what the printed form misses."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import random_layers
from geq_papers.bound.width import analyse_layer, feature_map, remainder_bound, scale, truncated_kernel


def vectors(seed: int, size: int, length: float) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    pair = torch.randn(2, 5, size, dtype=torch.float64, generator=generator)
    pair = length * pair / pair.norm(dim=-1, keepdim=True)
    return pair[0], pair[1]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**5), st.integers(1, 5), st.floats(0.1, 3), st.floats(0.01, 1), st.integers(0, 12))
def test_the_remainder_is_bounded(seed: int, size: int, length: float, gamma: float, degree: int) -> None:
    a, v = vectors(seed, size, length)
    exact = torch.exp(-gamma * (a - v).square().sum(-1))
    error = (truncated_kernel(a, v, gamma, degree) - exact).abs()
    assert bool((error <= remainder_bound(a, v, gamma, degree) * (1 + 1e-9) + 1e-14).all())


@pytest.mark.parametrize(("size", "degree"), [(1, 6), (3, 4), (4, 3)])
def test_the_features_written_out_give_the_truncated_kernel(size: int, degree: int) -> None:
    """λ⟨Φ(a), Φ(v)⟩ with 1 + n + n² + … entries: Φ⁽ⁱ⁾ has nⁱ of them, not i·nⁱ."""
    a, v = vectors(0, size, 1.3)
    features = feature_map(a, 0.4, degree), feature_map(v, 0.4, degree)
    assert features[0].shape[-1] == sum(size**i for i in range(degree + 1))
    product = scale(a, v, 0.4) * (features[0] * features[1]).sum(-1)
    torch.testing.assert_close(product, truncated_kernel(a, v, 0.4, degree))


def test_the_printed_scale_is_wrong_at_every_degree() -> None:
    """e^{−γ‖Wz‖} for e^{−γ‖Wz‖²}: the error stays while that of the right one vanishes."""
    a, v = vectors(1, 3, 2.0)
    exact = torch.exp(-0.5 * (a - v).square().sum(-1))
    series = torch.exp((a * v).sum(-1))
    torch.testing.assert_close(scale(a, v, 0.5) * series, exact)
    printed = scale(a, v, 0.5, squared=False) * series
    torch.testing.assert_close(printed / exact, torch.full_like(exact, math.exp(-0.5 * 2 + 0.5 * 4)))


def test_on_a_layer() -> None:
    """At equilibria of patches: the error falls with the degree, and a λ held fixed is another map."""
    for kernel in ("patch", "gaussian"):
        case = random_layers.build(kernel, 3, 0.9, 0.3, 1.0, 1.0, 1.0)
        found = analyse_layer(case.layer, case.x)
        assert found["holds"]
        assert found["error"][12] < 1e-6 < found["error"][0]
        assert found["printed_lambda_error"] > 1e-3
        assert found["constant_lambda_error"] > 1e-2
