"""Proposition 2: the perturbation bound that it rests on, corrected and printed; margin loss and remark 1."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import geq
from energy_problems import matrix_of
from geq_papers.bound.generalisation import frobenius
from geq_papers.bound.pac_bayes import (
    Norms,
    corrected_geq,
    corrected_opteq,
    corrected_right_side,
    largest_perturbation,
    margin_loss,
    paper_geq,
    paper_opteq,
    paper_right_side,
    remark_1,
)

INPUTS, FEATURES, STATE, CLASSES = 3, 4, 5, 3


def logits(kernel: str, weights: dict[str, Tensor], x: Tensor, gamma: float) -> Tensor:
    """W_c z* + b_c of the proposition's network, by a long plain iteration."""
    W, v = weights["W"], x @ weights["U"].T + weights["b"]
    z = x.new_zeros(len(x), W.shape[1])
    for _ in range(4000):
        if kernel == "linear":
            image = (z @ W.T @ W + v).relu()
        else:
            r = v - z @ W.T
            image = 0.5 * z + 0.5 * (torch.exp(-gamma * r.square().sum(1, keepdim=True)) * (r @ W)).relu()
        if float((image - z).norm()) < 1e-13:
            break
        z = image
    return z @ weights["W_c"].T + weights["b_c"]


def random_weights(kernel: str, seed: int, mu: float) -> dict[str, Tensor]:
    """Every norm is μ, that of b_c aside."""
    generator = torch.Generator().manual_seed(seed)
    rows = STATE if kernel == "linear" else FEATURES
    shapes = {"W": (FEATURES, STATE), "U": (rows, INPUTS), "b": (rows,), "W_c": (CLASSES, STATE)}
    found = {}
    for name, shape in shapes.items():
        weight = torch.randn(shape, generator=generator, dtype=torch.float64)
        size = weight.norm() if weight.dim() == 1 else torch.linalg.matrix_norm(weight, 2)
        found[name] = mu * weight / size
    return {**found, "b_c": torch.randn(CLASSES, generator=generator, dtype=torch.float64)}


def moved(weights: dict[str, Tensor], size: float, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed + 1)
    found = {}
    for name, weight in weights.items():
        step = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        found[name] = weight + size * step / (
            step.norm() if step.dim() == 1 else torch.linalg.matrix_norm(step, 2)
        )
    return found


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["gaussian", "linear"]),
    st.integers(0, 10**5),
    st.floats(0.1, 0.9),
    st.floats(0, 5),
    st.floats(-3, -1.2),
    st.floats(-2, 1),
)
def test_the_corrected_perturbation_bound_holds(
    kernel: str, seed: int, mu: float, bound: float, logarithm: float, log_gamma: float
) -> None:
    size, gamma = 10**logarithm, 10**log_gamma
    weights = random_weights(kernel, seed, mu)
    x = torch.randn(4, INPUTS, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    x = bound * x / x.norm(dim=1, keepdim=True)
    before = logits(kernel, weights, x, gamma)
    after = logits(kernel, moved(weights, size, seed), x, gamma)
    norms = Norms.all_at(mu, bound)
    constant = corrected_opteq(norms, size) if kernel == "linear" else corrected_geq(norms, size)
    assert float((after - before).norm(dim=1).max()) <= constant * size + 1e-10


@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
def test_the_printed_perturbation_bound_fails(kernel: str) -> None:
    """At x = 0 (B = 0) the printed K is 1; a bias, and its perturbation, move the logits by more."""
    mu, size, gamma = 0.9, 1e-4, 0.01
    W = torch.eye(2, dtype=torch.float64) * mu
    weights = {
        "W": W,
        "U": W,
        "b": torch.tensor([mu, 0.0], dtype=torch.float64),
        "W_c": W,
        "b_c": torch.zeros(2, dtype=torch.float64),
    }
    step = torch.tensor([size, 0.0], dtype=torch.float64)
    after = {**weights, "b": weights["b"] + step, "b_c": step, "W_c": W + torch.diag(step)}
    x = torch.zeros(1, 2, dtype=torch.float64)
    change = float((logits(kernel, after, x, gamma) - logits(kernel, weights, x, gamma)).norm()) / size
    beta, m = 1.0, mu**2
    printed = paper_opteq(m, mu, 0.0) if kernel == "linear" else paper_geq(beta, m, mu, 0.0)
    norms = Norms.all_at(mu, 0.0)
    corrected = corrected_opteq(norms, size) if kernel == "linear" else corrected_geq(norms, size)
    assert printed == 1
    assert change > 1.5
    assert change <= corrected


def test_the_printed_weight_term_is_short() -> None:
    """W is perturbed, so ‖W‖_F² must count; ‖WᵀW‖_F² is smaller for every W with ‖W‖ < 1."""
    W = random_weights("gaussian", 0, 0.9)["W"]
    assert float((W.T @ W).square().sum()) < float(W.square().sum())


def test_the_printed_right_side_is_below_the_corrected_one() -> None:
    norms = Norms.all_at(0.9, 1.0)
    common = (100, 50.0, 0.1, 10_000, 0.05)
    printed = paper_right_side(0.1, paper_opteq(0.81, 0.9, 1.0), *common)
    corrected = corrected_right_side(0.1, lambda size: corrected_opteq(norms, size), *common)
    assert 1 < printed < corrected
    assert math.isinf(paper_right_side(0.1, math.inf, *common))
    assert math.isinf(corrected_right_side(0.1, lambda size: math.inf, *common))


def test_the_perturbation_is_the_largest_allowed() -> None:
    norms = Norms.all_at(0.7, 2.0)
    size = largest_perturbation(lambda s: corrected_geq(norms, s), 0.2)
    assert corrected_geq(norms, size) * size == pytest.approx(0.05)


def test_the_spectral_norm_of_the_perturbation() -> None:
    """σ√(2h ln 24h) bounds five Gaussian matrices at once with probability 1/2, as both versions use."""
    h, sigma = 30, 0.1
    limit = sigma * math.sqrt(2 * h * math.log(24 * h))
    norms = torch.linalg.matrix_norm(sigma * torch.randn(200, 5, h, h), 2)
    assert float((norms.amax(1) <= limit).double().mean()) > 0.5


def test_margin_loss_by_hand() -> None:
    values = torch.tensor([[3.0, 1.0, 0.0], [0.0, 0.2, 0.1], [1.0, 2.0, 0.0], [0.5, 0.5, 0.0]])
    labels = torch.tensor([0, 1, 0, 0])
    assert margin_loss(values, labels, 0.0) == 0.5
    assert margin_loss(values, labels, 0.15) == 0.75
    assert margin_loss(values, labels, 5.0) == 1.0


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 0.799), st.floats(0.901, 0.999), st.floats(0.901, 0.999))
def test_remark_1_holds(beta: float, mu: float, m: float) -> None:
    found = remark_1(beta, m, mu)
    assert found == {"condition": True, "first": True, "second": True}
    assert paper_geq(beta, m, mu, 1.0) < paper_opteq(m, mu, 1.0)


@pytest.mark.parametrize("padding", ["zeros", "circular"])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_the_frobenius_norm_of_an_unrolled_convolution(padding: str, kernel: int) -> None:
    operator = geq.operators.Convolution(3, 2, kernel, padding).double().eval()
    matrix = matrix_of(operator, (3, 4, 5))
    assert frobenius(operator.effective_weight((4, 5)), operator, (4, 5)) == pytest.approx(
        float(matrix.square().sum())
    )
    dense = geq.operators.Dense(3, 2).double()
    assert frobenius(dense.weight, dense, None) == pytest.approx(float(dense.weight.detach().square().sum()))
