"""Lemma 3, theorem 2 and corollary 1: what a deep OptEq minimises, or nearly."""

from __future__ import annotations

import math

import numpy
import pytest
import torch
from hypothesis import given, settings
from scipy.optimize import minimize

from geq.errors import InputError, OptionError
from geq.layers import DeepOptEq2d, DeepOptEqLinear
from geq.penalties import NonNegative, Penalty
from geq_papers.theorem import (
    Composition,
    MultiBlock,
    Unit,
    check_corollary_1,
    check_lemma_3,
    check_theorem_2,
    composition_of,
    inclusion_residual,
    two_block_gradient,
    two_block_objective,
)
from theorem_units import ACTIVATIONS, ALPHAS, deep_units, make_unit, normal


def three(penalty: Penalty, alpha: float) -> Composition:
    return Composition(tuple(make_unit(s, 3 + s, 3, penalty, 0.9 - 0.1 * s) for s in range(3)), alpha)


@settings(max_examples=20, deadline=None)
@given(deep_units(3), ALPHAS)
def test_lemma_3(units: tuple[Unit, ...], alpha: float) -> None:
    check = check_lemma_3(Composition(units, alpha))
    assert check.holds, check.verdict


@pytest.mark.parametrize("penalty", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_erratum_of_eq_7(penalty: Penalty) -> None:
    """Without P inside of σ the equilibrium does not solve the equation, except for one layer."""
    deep = three(penalty, 0.6)
    blocks = deep.blocks(deep.equilibrium())
    multi = MultiBlock(deep)
    assert (multi(blocks) - blocks).norm() < 1e-10
    assert (multi.as_printed(blocks) - blocks).norm() > 1e-2
    one = Composition(deep.units[:1], 0.6)
    blocks = one.blocks(one.equilibrium())
    assert (MultiBlock(one).as_printed(blocks) - blocks).norm() < 1e-10


def test_the_permutation_and_the_weight_of_the_blocks() -> None:
    deep = three(NonNegative(), 0.5)
    multi = MultiBlock(deep)
    z = normal(0, 3, 3)
    permutation = multi.permutation
    torch.testing.assert_close(permutation @ permutation.T, torch.eye(9).double())
    torch.testing.assert_close((permutation @ z.flatten()).view(3, 3), z[[2, 0, 1]])
    assert multi.weight.shape == (3 + 4 + 5, 9)
    assert multi.bias.shape == (12,)


@settings(max_examples=20, deadline=None)
@given(deep_units(3), ALPHAS)
def test_theorem_2(units: tuple[Unit, ...], alpha: float) -> None:
    check = check_theorem_2(Composition(units, alpha))
    assert check.holds, check.verdict


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_the_inclusion_is_not_met_elsewhere(alpha: float) -> None:
    deep = three(ACTIVATIONS["leaky"], alpha)
    blocks = deep.blocks(deep.equilibrium())
    assert inclusion_residual(deep, blocks) < 1e-8
    for distance in (1e-3, 1e-1):
        assert inclusion_residual(deep, blocks + distance) > 0.05 * distance
    # The blocks in another order are other blocks.
    assert inclusion_residual(deep, blocks.flip(0)) > 1e-3


def test_outside_of_the_domain_nothing_is_included() -> None:
    deep = Composition((Unit(torch.eye(2).double() / 2, torch.ones(2).double(), NonNegative()),), 1.0)
    assert inclusion_residual(deep, -torch.ones(1, 2).double()) == math.inf


@settings(max_examples=12, deadline=None)
@given(deep_units(2), ALPHAS)
def test_corollary_1(units: tuple[Unit, ...], alpha: float) -> None:
    check = check_corollary_1(Composition(units, alpha), points=1)
    assert check.holds, check.verdict


@pytest.mark.parametrize("penalty", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_a_convex_solver_finds_the_equilibrium_of_two_layers(penalty: Penalty) -> None:
    deep = Composition(tuple(make_unit(s, 4, 3, penalty, 0.8) for s in (1, 2)), 0.7)

    def function(flat: numpy.ndarray) -> tuple[float, numpy.ndarray]:
        blocks = torch.from_numpy(flat).view(2, 3)
        return two_block_objective(deep, blocks), two_block_gradient(deep, blocks).flatten().numpy()

    found = minimize(function, normal(3, 6).numpy(), jac=True, method="BFGS", options={"gtol": 1e-10})
    expected = deep.blocks(deep.equilibrium()).flatten()
    torch.testing.assert_close(torch.from_numpy(found.x), expected, rtol=0, atol=1e-6)


def test_gradient_of_the_objective_by_finite_differences() -> None:
    deep = Composition(tuple(make_unit(s, 2, 2, ACTIVATIONS["tanh"]) for s in (1, 2)), 0.4)
    z, h = normal(1, 2, 2), 1e-5
    slopes = []
    for d in torch.eye(4).double():
        d = h * d.view(2, 2)
        slopes.append((two_block_objective(deep, z + d) - two_block_objective(deep, z - d)) / (2 * h))
    expected = two_block_gradient(deep, z).flatten()
    torch.testing.assert_close(torch.tensor(slopes).double(), expected, rtol=1e-6, atol=1e-6)


def test_refusals() -> None:
    deep = three(NonNegative(), 0.5)
    with pytest.raises(OptionError, match=r"corollary 1 is about two layers.*got 3"):
        check_corollary_1(deep)
    with pytest.raises(InputError, match=r"expected \(3, 3\), got \(2, 3\)"):
        inclusion_residual(deep, normal(0, 2, 3))
    large = Composition((make_unit(0, 3, 3, NonNegative(), 1.5), make_unit(1, 3, 3, NonNegative(), 0.1)), 0.5)
    for check in (check_theorem_2, check_corollary_1):
        with pytest.raises(OptionError, match=r"theorem 1 needs μ ≥ L_σ‖W‖² = 2.25"):
            check(large)


@pytest.mark.parametrize("activation", [None, torch.tanh], ids=["relu", "tanh"])
def test_theorems_on_layers_of_the_library(activation: object) -> None:
    torch.manual_seed(0)
    layer = DeepOptEqLinear(3, features=(4, 5), state_features=4, activation=activation, tol=1e-12).double()
    x = normal(0, 1, 3)
    deep = composition_of(layer.cell, x)  # type: ignore[arg-type]
    torch.testing.assert_close(deep.equilibrium()[None], layer(x).detach(), rtol=0, atol=1e-9)
    assert check_theorem_2(deep).holds
    assert check_corollary_1(deep, points=1).holds


def test_a_convolution_is_written_out_as_a_matrix() -> None:
    torch.manual_seed(0)
    layer = DeepOptEq2d(2, channels=(2, 3, 1), tol=1e-12).double().eval()
    x = normal(0, 1, 2, 3, 3)
    deep = composition_of(layer.cell, x)  # type: ignore[arg-type]
    assert [tuple(unit.weight.shape) for unit in deep.units] == [(18, 18), (27, 18), (9, 18)]
    torch.testing.assert_close(deep.equilibrium(), layer(x).detach().flatten(), rtol=0, atol=1e-9)
    check = check_theorem_2(deep)
    assert check.holds, check.verdict


def test_layers_that_are_no_composition() -> None:
    layer = DeepOptEqLinear(3, features=(4, 5), alpha=(0.5, 0.8)).double()
    with pytest.raises(OptionError, match=r"one α for all layers: got 0.5, 0.8"):
        composition_of(layer.cell, normal(0, 1, 3))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="one sample in float64: got 2"):
        composition_of(layer.cell, normal(0, 2, 3))  # type: ignore[arg-type]
