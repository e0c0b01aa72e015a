"""Kernels whose convolution keeps norms: against the identity that defines them, and the singular values."""

from __future__ import annotations

import pytest
import torch

from geq.model.isometric_kernel import isometric_kernel
from geq.operators import Convolution

SHAPES = pytest.mark.parametrize(
    ("out_channels", "in_channels", "side"),
    [(4, 7, 3), (7, 4, 3), (5, 5, 3), (3, 6, 5), (6, 3, 1), (1, 1, 3)],
)


def operator(out_channels: int, in_channels: int, side: int, padding: str) -> Convolution:
    torch.manual_seed(0)
    found = Convolution(in_channels, out_channels, side, padding).double()
    found.restart(isometric_kernel(out_channels, in_channels, side))
    return found


@SHAPES
def test_circular_is_an_isometry(out_channels: int, in_channels: int, side: int) -> None:
    a = operator(out_channels, in_channels, side, "circular")
    if out_channels <= in_channels:
        y = torch.randn(2, out_channels, 6, 8, dtype=torch.float64)
        torch.testing.assert_close(a(a.adjoint(y)), y)
    else:
        z = torch.randn(2, in_channels, 6, 8, dtype=torch.float64)
        torch.testing.assert_close(a.adjoint(a(z)), z)


@SHAPES
def test_with_zeros_around_no_singular_value_is_above_one(
    out_channels: int, in_channels: int, side: int
) -> None:
    a = operator(out_channels, in_channels, side, "zeros")
    columns = torch.eye(in_channels * 36, dtype=torch.float64).view(-1, in_channels, 6, 6)
    values = torch.linalg.svdvals(a(columns).flatten(1))
    assert values.max() <= 1 + 1e-12
    # Away from the border nothing is lost, so that most of them are 1.
    assert values[: min(out_channels, in_channels) * (7 - side) ** 2].min() > 1 - 1e-12


def test_a_random_kernel_is_far_from_it() -> None:
    """So the tests above can fail."""
    torch.manual_seed(0)
    random = Convolution(7, 4).double()
    columns = torch.eye(7 * 36, dtype=torch.float64).view(-1, 7, 6, 6)
    values = torch.linalg.svdvals(random(columns).flatten(1))
    assert values[0] > 3 * values[100]


def test_all_taps_are_used() -> None:
    torch.manual_seed(0)
    taps = isometric_kernel(4, 6, 3).square().sum((0, 1))
    assert taps.min() > 1e-3 * taps.max()
