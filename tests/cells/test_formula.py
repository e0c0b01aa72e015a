"""The maps of the papers' tables, written literally, against the library's cells."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import energy_problems
import geq
from energy_problems import PADDINGS, convolve, convolve_back, maps, vectors


def state_like(problem: geq.EnergyProblem, x: Tensor) -> Tensor:
    zero = problem.initial_state(problem.inject(x))
    return torch.randn(zero.shape, dtype=zero.dtype)


def cell_value(problem: geq.EnergyProblem, z: Tensor, x: Tensor) -> Tensor:
    cell = problem
    return cell(z, cell.inject(x))


@pytest.mark.parametrize(
    "kernel", ["linear", "polynomial-literal", "sigmoid-literal", "polynomial-3", "sigmoid"]
)
def test_inner_product_kernels_on_vectors(kernel: str) -> None:
    problem, x = energy_problems.dense(kernel), vectors()
    W, U, b = problem.W.weight, problem.U.weight, problem.U.bias
    z = state_like(problem, x)
    expected = torch.zeros_like(z)
    for sample in range(len(x)):
        v = U @ x[sample] + b
        product, n = (v @ z[sample]).item(), len(v)
        factor = {
            "linear": 1.0,
            "polynomial-literal": 2 * product,
            "sigmoid-literal": 1 - math.tanh(product) ** 2,
            "polynomial-3": (0.5 + product / (2 * n)) ** 2,
            "sigmoid": 1 - math.tanh(product / n) ** 2,
        }[kernel]
        expected[sample] = (W.T @ (W @ z[sample]) + factor * v).clamp_min(0)
    torch.testing.assert_close(cell_value(problem, z, x), expected)
    assert bool((expected > 0).any())


def test_gaussian_on_vectors() -> None:
    problem, x = energy_problems.dense("gaussian"), vectors()
    W, U, b = problem.W.weight, problem.U.weight, problem.U.bias
    z = state_like(problem, x)
    expected = torch.zeros_like(z)
    for sample in range(len(x)):
        r = U @ x[sample] + b - W @ z[sample]
        expected[sample] = (math.exp(-0.1 * (r @ r).item()) * (W.T @ r)).clamp_min(0)
    torch.testing.assert_close(cell_value(problem, z, x), expected)


@pytest.mark.parametrize("padding", PADDINGS)
def test_linear_on_maps(padding: str) -> None:
    problem, x = energy_problems.conv("linear", padding), maps()
    z = state_like(problem, x)
    W, U = (operator.effective_weight(energy_problems.SIZE) for operator in (problem.W, problem.U))
    b = problem.U.bias
    feedback = convolve_back(convolve(z, W, None, padding), W, padding)
    expected = (feedback + convolve(x, U, b, padding)).clamp_min(0)
    torch.testing.assert_close(cell_value(problem, z, x), expected)


@pytest.mark.parametrize("padding", PADDINGS)
def test_patch_gaussian(padding: str) -> None:
    """GEQ eq. 16: loops over groups of channels and patches of pixels."""
    problem, x = energy_problems.conv("patch", padding), maps()
    similarity = problem.kernel
    assert isinstance(similarity, geq.kernels.PatchGaussianKernel)
    z = state_like(problem, x)
    W, U = (operator.effective_weight(energy_problems.SIZE) for operator in (problem.W, problem.U))
    b, W_h = problem.U.bias, similarity.projection
    p, split, gamma = similarity.patch, similarity.channel_split, 0.3
    r = convolve(x, U, b, padding) - convolve(z, W, None, padding)
    pulled = torch.zeros_like(r)
    weights = []
    for sample in range(len(x)):
        for group in range(0, r.shape[1], split):
            for row in range(0, r.shape[2], p):
                for column in range(0, r.shape[3], p):
                    place = (
                        sample,
                        slice(group, group + split),
                        slice(row, row + p),
                        slice(column, column + p),
                    )
                    d = r[place].reshape(-1)
                    weight = torch.exp(-gamma * (d @ W_h).square().sum())
                    pulled[place] = (weight * (d @ W_h @ W_h.T)).view(split, p, p)
                    weights.append(weight)
    expected = convolve_back(pulled, W, padding).clamp_min(0)
    torch.testing.assert_close(cell_value(problem, z, x), expected)

    c = problem.inject(x)
    torch.testing.assert_close(problem.attention(z, c).flatten(), torch.stack(weights))
    score = torch.stack(weights).view(len(x), -1).sum(1) / (2 * gamma)
    torch.testing.assert_close(problem.score(z, c), score)


@pytest.mark.parametrize("kernel", ["linear", "polynomial-literal", "sigmoid-literal", "gaussian"])
def test_energy_on_vectors(kernel: str) -> None:
    problem, x = energy_problems.dense(kernel), vectors()
    W, U, b = problem.W.weight, problem.U.weight, problem.U.bias
    z = state_like(problem, x).abs()
    expected = []
    for sample in range(len(x)):
        v, feature = U @ x[sample] + b, W @ z[sample]
        if kernel == "gaussian":
            score = torch.exp(-0.1 * (v - feature).square().sum()) / 0.2
        else:
            product = v @ z[sample]
            own = {
                "linear": product,
                "polynomial-literal": product**2,
                "sigmoid-literal": product.tanh(),
            }[kernel]
            score = own + 0.5 * feature.square().sum()
        expected.append(0.5 * z[sample].square().sum() - score)
    torch.testing.assert_close(problem.energy(z, problem.inject(x)), torch.stack(expected))
    assert problem.energy(-z, problem.inject(x)).isinf().all(), "z ≥ 0 is a constraint"
