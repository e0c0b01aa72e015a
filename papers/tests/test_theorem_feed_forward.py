"""Lemmas 1 and 2: feed-forward networks as unit layers, and inside of a deep OptEq."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import geq
from geq.errors import ConvergenceWarning, InputError, OptionError
from geq.penalties import L1, LeakyPenalty, NonNegative, Penalty, SigmoidPenalty, TanhPenalty, penalty_of
from geq_papers.theorem import FeedForward, cell_of, check_lemma_1, check_lemma_2, contain, rewrite
from geq_papers.theorem.lemma_2 import odd_slope
from theorem_units import ACTIVATIONS, PENALTIES, SEEDS, make_network, normal

NETWORK_SIZES = st.lists(st.integers(1, 6), min_size=3, max_size=6)


def test_the_network_is_the_usual_one() -> None:
    torch.manual_seed(0)
    usual = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    linear = [layer for layer in usual if isinstance(layer, nn.Linear)]
    network = FeedForward([(layer.weight.detach(), layer.bias.detach()) for layer in linear], nn.Tanh())
    x = normal(1, 7, 3)
    torch.testing.assert_close(network(x), usual(x))
    torch.testing.assert_close(rewrite(network)(x), usual(x))


@settings(max_examples=30, deadline=None)
@given(SEEDS, NETWORK_SIZES, st.one_of(PENALTIES, st.just(SigmoidPenalty())))
def test_lemma_1(seed: int, sizes: list[int], penalty: Penalty) -> None:
    network = make_network(seed, sizes, penalty)
    check = check_lemma_1(network)
    assert check.holds, check.verdict
    chain, hidden = rewrite(network), sizes[1:-1]
    # the state has the size that the lemma allows, and the weights are as stable as the docstring says
    assert chain.lift.shape[0] == max([hidden[0], *(a + b for a, b in itertools.pairwise(hidden))])
    for weight, (given_weight, _) in zip(chain.weights[1:], network.hidden[1:], strict=True):
        singular = torch.linalg.svdvals(weight)
        assert singular[-1] > 1 - 1e-9
        assert singular[0] ** 2 <= 1 + torch.linalg.matrix_norm(given_weight, 2) ** 2 + 1e-9


@settings(max_examples=20, deadline=None)
@given(SEEDS, NETWORK_SIZES, PENALTIES)
def test_lemma_2_without_skips(seed: int, sizes: list[int], penalty: Penalty) -> None:
    network = make_network(seed, sizes, penalty)
    check = check_lemma_2(network, points=2)
    assert check.holds, check.verdict
    deep = contain(network)
    assert len(deep.weights) == len(sizes) - 1  # hidden layers + 1
    # a constant map: from anywhere, one evaluation is the equilibrium
    composition = deep.at(normal(seed, sizes[0]))
    first, second = (composition(normal(place, composition.state_size)) for place in (1, 2))
    torch.testing.assert_close(first, second)


@settings(max_examples=15, deadline=None)
@given(SEEDS, NETWORK_SIZES, st.sampled_from([0.2, 0.5, 0.8]), st.sampled_from(["relu", "leaky"]))
def test_lemma_2_with_skips(seed: int, sizes: list[int], alpha: float, name: str) -> None:
    check = check_lemma_2(make_network(seed, sizes, ACTIVATIONS[name]), alpha, points=2)
    assert check.holds, check.verdict


def test_the_equilibrium_with_skips_is_the_one_of_the_docstring() -> None:
    """Work space 0, the store proportional to what the layers leave behind."""
    network = make_network(3, [2, 3, 4, 1], NonNegative())
    deep = contain(network, 0.5)
    z = deep.at(normal(4, 2)).equilibrium(start=normal(5, 14))
    torch.testing.assert_close(z[:7], torch.zeros(7).double(), rtol=0, atol=1e-9)
    assert z[7:].norm() > 0.1


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.LeakyReLU(0.2), nn.Tanh()])
def test_the_contained_network_runs_as_a_layer_of_the_library(activation: nn.Module) -> None:
    network = make_network(8, [3, 4, 5, 2], penalty_of(activation))
    deep = contain(network)
    layer = geq.Equilibrium(cell_of(deep), tol=1e-12)
    x = normal(9, 6, 3)
    torch.testing.assert_close(layer(x) @ deep.output.T + deep.output_bias, network(x))
    assert layer.last_solution is not None
    assert layer.last_solution.steps.max() <= 2


def test_with_skips_the_cell_has_the_equilibrium_that_newton_found() -> None:
    network = make_network(3, [2, 3, 1], NonNegative())
    deep = contain(network, 0.5)
    x = normal(4, 1, 2)
    z = deep.at(x[0]).equilibrium()
    cell = cell_of(deep)
    torch.testing.assert_close(cell(z[None], cell.inject(x)), z[None])
    # iteration does not find it, as the docstring says
    with pytest.warns(ConvergenceWarning):
        geq.Equilibrium(cell, solver=geq.solvers.Picard(), max_steps=200).eval()(x)


def test_odd_parts() -> None:
    assert odd_slope(NonNegative()) == 1
    assert odd_slope(LeakyPenalty(0.25)) == pytest.approx(1.25)
    assert odd_slope(TanhPenalty()) is None
    assert odd_slope(L1(0.5)) is None


def test_what_lemma_2_cannot_do() -> None:
    network = make_network(0, [2, 3, 1], TanhPenalty())
    with pytest.raises(OptionError, match=r"σ\(s\) − σ\(−s\) = κs.*got TanhPenalty\(\); use alpha=1"):
        contain(network, 0.5)
    for alpha in (0.0, 1.5):
        with pytest.raises(OptionError, match=r"alpha must be in \(0, 1\]"):
            contain(network, alpha)
    deep = make_network(0, [2, *[1] * 9, 1], NonNegative())
    with pytest.raises(OptionError, match=r"\(1 − alpha\)\^9 = 1e-09 is too small"):
        contain(deep, 0.9)


MATRIX, BIAS = torch.eye(2).double(), torch.zeros(2).double()


@pytest.mark.parametrize(
    ("affine", "error", "told"),
    [
        ([(MATRIX, BIAS)], OptionError, "at least one hidden layer.*got 1"),
        ([(MATRIX, BIAS), (MATRIX.float(), BIAS)], InputError, "pair 1 must be in float64"),
        ([(MATRIX, BIAS[:1]), (MATRIX, BIAS)], InputError, r"pair 0 must be .* \(2, 2\) and \(1,\)"),
        ([(MATRIX, BIAS), (MATRIX[:, :1], BIAS)], InputError, "weight 1 must have 2 columns.*got 1"),
    ],
)
def test_networks_that_cannot_be(affine: list, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        FeedForward(affine)
