"""Norm enclosures against the singular values of the unrolled matrix."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import geq
from energy_problems import matrix_of
from geq.certificates.banded_gram import StripGram
from geq.certificates.enclosure import (
    THOROUGH,
    Enclosure,
    convolution_enclosure,
    largest_singular_value,
    matrix_enclosure,
)
from geq.certificates.patch_root import PatchRoot

SIZES = st.integers(1, 7)


def convolve(z: Tensor, weight: Tensor, padding: str) -> Tensor:
    margin = weight.shape[-1] // 2
    mode = "constant" if padding == "zeros" else "circular"
    return F.conv2d(F.pad(z, (margin,) * 4, mode=mode), weight)


def projected(value: Tensor, projection: Tensor, patch: int, split: int) -> Tensor:
    """The patches of maps times W_h, which is what the kernel measures."""
    return geq.kernels.to_patches(value, patch, split) @ projection


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Tensor, int, int, str]:
    out, into, height, width = draw(SIZES), draw(st.integers(1, 5)), draw(SIZES), draw(SIZES)
    kernel = draw(st.sampled_from([1, 3, 5]))
    margin = kernel // 2
    height, width = max(height, margin, 1), max(width, margin, 1)
    torch.manual_seed(draw(st.integers(0, 10**6)))
    weight = torch.randn(out, into, kernel, kernel, dtype=torch.float64)
    if draw(st.booleans()):
        weight = weight.abs()  # all singular vectors of one sign: the worst case of a border
    scale = draw(st.sampled_from([1e-3, 1.0, 50.0]))
    return scale * weight, height, width, draw(st.sampled_from(["zeros", "circular"]))


@settings(max_examples=100, deadline=None)
@given(convolutions())
def test_the_norm_of_a_convolution_is_enclosed(case: tuple[Tensor, int, int, str]) -> None:
    weight, height, width, padding = case
    matrix = matrix_of(lambda z: convolve(z, weight, padding), (weight.shape[1], height, width))
    exact = torch.linalg.matrix_norm(matrix, 2).item()
    found = convolution_enclosure(weight, height, width, padding)
    assert found.lower <= exact * (1 + 1e-12)
    assert exact <= found.upper
    assert found.upper <= 1.003 * exact
    quick = convolution_enclosure(weight, height, width, padding, budget=0.0)
    assert quick.method == "Fourier"
    assert quick.upper >= exact


@st.composite
def patched(draw: st.DrawFn) -> tuple[Tensor, Tensor, int, int, int, int, str]:
    patch, split = draw(st.sampled_from([1, 2, 3])), draw(st.integers(1, 2))
    height, width = patch * draw(st.integers(1, 3)), patch * draw(st.integers(1, 3))
    groups, into = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    kernel = draw(st.sampled_from([1, 3]))
    torch.manual_seed(draw(st.integers(0, 10**6)))
    weight = torch.randn(groups * split, into, kernel, kernel, dtype=torch.float64)
    projection = torch.randn(split * patch**2, draw(st.integers(1, 6)), dtype=torch.float64)
    return weight, projection, patch, split, height, width, draw(st.sampled_from(["zeros", "circular"]))


@settings(max_examples=100, deadline=None)
@given(patched())
def test_the_joint_norm_of_patches_is_enclosed(
    case: tuple[Tensor, Tensor, int, int, int, int, str],
) -> None:
    """‖blockdiag(W_h)ᵀ·patch·W‖, which is below ‖W_h‖‖W‖."""
    weight, projection, patch, split, height, width, padding = case
    matrix = matrix_of(
        lambda z: projected(convolve(z, weight, padding), projection, patch, split),
        (weight.shape[1], height, width),
    )
    exact = torch.linalg.matrix_norm(matrix, 2).item()
    root = PatchRoot.of(projection, patch, split)
    found = convolution_enclosure(weight, height, width, padding, root)
    assert found.lower <= exact * (1 + 1e-9)
    assert exact <= found.upper <= 1.003 * exact
    apart = convolution_enclosure(weight, height, width, padding).upper * matrix_enclosure(projection).upper
    assert exact <= apart * (1 + 1e-12)
    assert convolution_enclosure(weight, height, width, padding, root, budget=0.0).upper >= exact


def test_small_maps_are_bounded_tightly_where_fourier_is_not() -> None:
    """The bound of the circular convolution is 10 % and more too large on a 4×4 map."""
    weight = torch.randn(8, 12, 3, 3)
    tight = convolution_enclosure(weight, 4, 4)
    loose = convolution_enclosure(weight, 4, 4, budget=0.0)
    assert tight.method == "Cholesky"
    assert tight.width < 0.002
    assert loose.upper > 1.08 * tight.upper


def test_a_factorisation_refuses_what_is_not_above_the_norm() -> None:
    weight = torch.randn(3, 4, 3, 3, dtype=torch.float64)
    matrix = matrix_of(lambda z: F.conv2d(z, weight, padding=1), (4, 6, 5))
    exact = torch.linalg.matrix_norm(matrix, 2).item()
    gram = StripGram(weight, 6, 5, None)
    assert gram.below((exact * 1.00001) ** 2)
    assert not gram.below((exact * 0.99999) ** 2)


def test_lanczos_beats_power_iteration() -> None:
    """Exact to 1e-4 on a slowly decaying spectrum, and never above."""
    values = torch.linspace(1, 0.9, 300, dtype=torch.float64)
    left = torch.linalg.qr(torch.randn(300, 300, dtype=torch.float64))[0]
    matrix = left * values @ torch.linalg.qr(torch.randn(300, 300, dtype=torch.float64))[0]
    found = largest_singular_value(
        lambda z: z @ matrix.to(z.dtype).T, lambda y: y @ matrix.to(y.dtype), (1, 300)
    )
    assert 0.999 < found <= 1 + 1e-12


@pytest.mark.parametrize("padding", ["zeros", "circular"])
def test_degenerate_weights(padding: str) -> None:
    zero = torch.zeros(3, 2, 3, 3)
    assert convolution_enclosure(zero, 4, 4, padding).upper == 0
    assert convolution_enclosure(zero, 4, 4, padding).width == 0
    assert math.isinf(convolution_enclosure(zero + math.nan, 4, 4, padding).upper), "nothing is proved"
    tiny = 1e-30 * torch.ones(3, 2, 3, 3)
    plain = convolution_enclosure(torch.ones(3, 2, 3, 3), 4, 4, padding)
    assert convolution_enclosure(tiny, 4, 4, padding).upper == pytest.approx(1e-30 * plain.upper)
    flat = PatchRoot.of(torch.zeros(4, 3), 2, 1)
    assert convolution_enclosure(tiny, 4, 4, padding, flat).upper == 0
    assert Enclosure(0.0, 1.0, "Fourier").width == math.inf


def test_operators_and_problems_use_it() -> None:
    operator = geq.operators.Convolution(4, 3, constraint=geq.constraints.SpectralBound(0.9)).eval()
    found = operator.norm_enclosure((4, 6), THOROUGH)
    assert found.lower == pytest.approx(0.9, rel=1e-3)
    assert found.upper < 0.902
    assert geq.operators.Dense(4, 3).norm_enclosure().method == "singular values"

    layer = geq.GEQ2d(2, 8, 8, hidden=4).double().eval()
    with torch.no_grad():
        layer.problem.kernel.raw_projection.normal_(std=0.2)
    joint = layer.problem.feedback_enclosure((4, 4))
    apart = layer.problem.W.norm_enclosure((4, 4))
    assert joint.upper < 0.98 * apart.upper * torch.linalg.matrix_norm(layer.problem.kernel.projection, 2)
    assert layer.well_posedness((4, 4)).feedback_norm == joint.upper
