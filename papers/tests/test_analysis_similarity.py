"""Proposition 4: Monte Carlo over Gaussian U against corrected and printed bounds, and remark 3."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import geq
from energy_problems import conv, maps
from geq.analysis.weight_norms import input_map, layer_norms
from geq.cells import EnergyEquation
from geq.operators.operator import size_of
from geq_papers.bound.similarity import (
    analyse_pair,
    angle_factor,
    choose_pairs,
    columns,
    corrected_geq,
    corrected_opteq,
    monte_carlo,
    one_layer,
    paper_geq,
    paper_opteq,
    remark_3,
    weighted_square,
)

INPUTS, FEATURES, STATE = 4, 6, 6


def problem_of(kernel: str, W: Tensor, gamma: float = 0.1) -> geq.EnergyProblem:
    similarity = geq.kernels.LinearKernel() if kernel == "linear" else geq.kernels.GaussianKernel(gamma)
    target = W.shape[1] if kernel == "linear" else W.shape[0]
    problem = geq.EnergyProblem(
        similarity,
        W=geq.operators.Dense(W.shape[1], W.shape[0], constraint=geq.constraints.Unconstrained()),
        U=geq.operators.Dense(INPUTS, target),
    )
    problem.double().eval()
    with torch.no_grad():
        problem.W.raw_weight.copy_(W)
    return problem


def random_case(seed: int, mu: float) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    W = torch.randn(FEATURES, STATE, generator=generator, dtype=torch.float64)
    if seed % 2:
        W = W.abs()
    x = torch.randn(2, INPUTS, generator=generator, dtype=torch.float64)
    if seed % 3 == 0:
        x[1] = -x[0]
    return mu * W / torch.linalg.matrix_norm(W, 2), x[:1], x[1:]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["linear", "gaussian"]),
    st.integers(0, 10**5),
    st.floats(0.1, 0.9),
    st.floats(-2, 1),
    st.floats(-1, 0.5),
)
def test_the_corrected_bounds_hold(
    kernel: str, seed: int, mu: float, log_gamma: float, log_deviation: float
) -> None:
    W, first, second = random_case(seed, mu)
    gamma, variance = 10**log_gamma, 10 ** (2 * log_deviation)
    found = monte_carlo(problem_of(kernel, W, gamma), (first, second), (FEATURES,), variance, 60, seed)
    if kernel == "linear":
        bound = corrected_opteq(first, second, STATE, variance, mu)
    else:
        bound = corrected_geq(first, second, FEATURES, variance, mu, gamma)
    assert found.mean - 4 * found.error <= bound


def test_one_layer_is_what_a_single_layer_gives() -> None:
    """The closed form against a Monte-Carlo mean over half a million rows."""
    first, second = torch.randn(2, 3, 4, dtype=torch.float64)
    rows = 0.7 * torch.randn(500_000, 4, dtype=torch.float64)
    sampled = ((rows @ first.T).relu() * (rows @ second.T).relu()).sum(1)
    exact = one_layer(first, second, 0.49)
    assert exact == pytest.approx(float(sampled.mean()), abs=5 * float(sampled.std()) / math.sqrt(len(rows)))
    assert angle_factor(torch.tensor(1.0)).item() == pytest.approx(math.pi)
    # With W = 0 the network is that layer, and the corrected bound is met with equality.
    corrected = corrected_opteq(first, second, 5, 0.49, 0.0)
    assert corrected == pytest.approx(5 * exact)


def test_the_weighted_square_in_closed_form() -> None:
    x, difference = torch.randn(2, 1, 4, dtype=torch.float64)
    U = 0.6 * torch.randn(400_000, 3, 4, dtype=torch.float64)
    damping = torch.exp(-0.2 * (U @ difference.T).square().sum((1, 2)))
    sampled = damping * (U @ x.T).square().sum((1, 2))
    exact = weighted_square(x, difference, 3, 0.36, 0.2)
    assert exact == pytest.approx(float(sampled.mean()), abs=5 * float(sampled.std()) / math.sqrt(len(U)))
    assert weighted_square(x, 0 * x, 3, 0.36, 0.2) == pytest.approx(3 * 0.36 * float(x.square().sum()))


def test_both_printed_bounds_fail_for_opposite_inputs() -> None:
    """At θ = π both are 0. A W that mixes coordinates makes the outputs overlap all the same."""
    x = torch.ones(1, INPUTS, dtype=torch.float64)
    mixing = 0.9 * torch.full((FEATURES, STATE), 1 / math.sqrt(FEATURES * STATE), dtype=torch.float64)
    linear = monte_carlo(problem_of("linear", mixing), (x, -x), (STATE,), 1.0, 400)
    single = one_layer(x, -x, 1.0)
    assert single == pytest.approx(0, abs=1e-12)
    assert linear.mean - 4 * linear.error > paper_opteq(single, 0.9) + 0.1
    assert linear.mean - 4 * linear.error <= corrected_opteq(x, -x, STATE, 1.0, 0.9)

    # Columns ±e_j + e_6 answer both inputs and push r along −e_6, to which the last column answers twice.
    W = torch.zeros(FEATURES, 2 * FEATURES - 1, dtype=torch.float64)
    for j in range(FEATURES - 1):
        W[j, 2 * j], W[j, 2 * j + 1] = 1.0, -1.0
    W[-1] = 1.0
    W[-1, -1] = -1.0
    W = 0.9 * W / torch.linalg.matrix_norm(W, 2)
    gaussian = monte_carlo(problem_of("gaussian", W, 0.001), (x, -x), (FEATURES,), 1.0, 400)
    printed = paper_geq(single, 0.9, gaussian.beta_max, 0.001, 10.0, 0.0, 2 * float(x.norm()))
    assert gaussian.mean - 4 * gaussian.error > printed + 5e-4
    assert gaussian.mean - 4 * gaussian.error <= corrected_geq(x, -x, FEATURES, 1.0, 0.9, 0.001)


def test_the_printed_bounds_lack_the_number_of_rows() -> None:
    """Without any feedback (W → 0) κ_opteq is n times what is printed."""
    x = torch.randn(1, INPUTS, dtype=torch.float64)
    found = monte_carlo(
        problem_of("linear", torch.zeros(2, 40, dtype=torch.float64)), (x, x), (40,), 1.0, 300
    )
    printed = paper_opteq(one_layer(x, x, 1.0), 0.0)
    assert found.mean == pytest.approx(40 * printed, rel=0.1)
    assert found.mean - 4 * found.error > 10 * printed


def test_a_state_is_never_longer_than_the_kernel_allows() -> None:
    """‖z‖ ≤ μ/√(2eγ), which makes the D of the corrected bound e^{μ⁴/2e}."""
    for seed in range(20):
        W, first, second = random_case(seed, 0.9)
        found = monte_carlo(problem_of("gaussian", W, 0.3), (first, second), (FEATURES,), 4.0, 20, seed)
        assert found.state_norm <= 0.9 / math.sqrt(2 * math.e * 0.3) + 1e-9


def test_the_printed_d_needs_the_square_of_b() -> None:
    """β₁β₂ ≤ De^{−(γ/4)‖U(x₁ − x₂)‖²} fails with D = e^{γBμ²} where outputs are longer than 1.

    One feature, two states W = μ(1, −1)/√2, and Ux = ±60: each input is met by a state of its own.
    """
    mu, gamma, length = 0.99, 1e-6, 60.0
    W = mu * torch.tensor([[1.0, -1.0]], dtype=torch.float64) / math.sqrt(2)
    problem = problem_of("gaussian", W, gamma)
    v = torch.tensor([[length], [-length]], dtype=torch.float64)
    c = problem.bind(v)
    z = geq.fixed_point(
        EnergyEquation(problem, c), None, geq.solvers.Anderson(), tol=1e-12, max_steps=500
    ).value
    beta = c.attention(c.W(z)).flatten().detach()
    distance = float((v[0] - v[1]).norm())
    bound = float(z.norm(dim=1).max())
    product = float(beta[0] * beta[1])
    decay = math.exp(-gamma / 4 * distance**2)
    assert product > math.exp(gamma * bound * mu**2) * decay
    assert product <= math.exp(gamma * bound**2 * mu**2) * decay


def test_remark_3_needs_gamma() -> None:
    """γ < 1: at the printed distance the factor De^{…} is above 1; at the corrected one it is not."""
    mu, gamma, bound, least = 0.9, 0.1, 2.0, 0.5
    printed = 2 * math.sqrt(gamma * bound * mu**2) / least
    found = remark_3(mu, gamma, bound, least, printed * 1.01)
    assert found == {"decayed": False, "printed_condition": True, "corrected_condition": False}
    enough = printed / math.sqrt(gamma)
    assert remark_3(mu, gamma, bound, least, enough * 1.0001) == {
        "decayed": True,
        "printed_condition": True,
        "corrected_condition": True,
    }


@pytest.mark.parametrize("padding", ["zeros", "circular"])
@pytest.mark.parametrize("kernel", ["patch", "gaussian", "linear"])
def test_on_convolutions(kernel: str, padding: str) -> None:
    problem = conv(kernel, padding)
    x = maps(2)
    U = input_map(problem.U, size_of(x))
    assert U is not None
    seen = columns(x[0], U.operator)
    value = (seen @ U.weight.flatten(1).T).T.reshape(-1, *x.shape[2:])
    torch.testing.assert_close(value, problem.U(x)[0] - problem.U(torch.zeros_like(x))[0])
    found = analyse_pair(problem, U, (x[0], x[1]), layer_norms(problem, size_of(x)), 40, 0)
    assert found["bounds"]["corrected"]["verdict"] == "holds"
    assert found["kappa"] > 0


def test_pairs_are_chosen_by_label() -> None:
    assert choose_pairs(torch.tensor([3, 1, 1, 3])) == {"same class": (0, 3), "other class": (0, 1)}
    assert choose_pairs(torch.tensor([3, 1])) == {"other class": (0, 1)}
