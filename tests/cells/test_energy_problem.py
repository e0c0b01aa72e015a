from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import energy_problems
import geq
from energy_problems import maps, vectors
from geq.operators.operator import CHANNELS_LAST_SIDE


def test_gradient_is_that_of_the_smooth_energy() -> None:
    problem, x = energy_problems.dense("gaussian"), vectors()
    c = problem.inject(x)
    z = torch.rand(3, energy_problems.STATE, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(problem.energy(z, c).sum(), z)
    torch.testing.assert_close(problem.gradient(z, c), expected)


def test_injection_is_computed_once_per_solve() -> None:
    problem = energy_problems.dense("gaussian")
    calls = []
    problem.U.register_forward_hook(lambda *_: calls.append(1))
    geq.Equilibrium(problem, solver=geq.solvers.Picard(), tol=1e-8, max_steps=500).eval().solve(vectors())
    assert len(calls) == 1


@pytest.mark.parametrize("given", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    "side, chosen",
    [(CHANNELS_LAST_SIDE - 2, torch.contiguous_format), (CHANNELS_LAST_SIDE, torch.channels_last)],
)
def test_memory_order_is_chosen_by_the_size(
    given: torch.memory_format, side: int, chosen: torch.memory_format
) -> None:
    problem = energy_problems.conv("patch")
    x = torch.randn(3, energy_problems.CHANNELS_IN, side, side, dtype=torch.float64)
    c = problem.inject(x.contiguous(memory_format=given))
    state = problem.initial_state(c)
    for maps_of_solve in (c.v, state, c.W.weight):
        assert maps_of_solve.is_contiguous(memory_format=chosen)
    assert state.shape == (3, energy_problems.CHANNELS_STATE, side, side)
    assert not state.any()


def test_channels_last_changes_nothing_but_the_memory_order() -> None:
    problem, x = energy_problems.conv("patch"), maps()
    layer = geq.Equilibrium(problem, tol=1e-10).eval()
    z = layer(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(z, layer(x), rtol=1e-8, atol=1e-8)


def test_vectors_may_have_more_axes() -> None:
    """Dense maps the last axis; a sample is then a set of vectors with one attention weight."""
    problem = energy_problems.dense("gaussian")
    layer = geq.Equilibrium(problem, tol=1e-8).eval()
    assert layer(torch.randn(2, 7, energy_problems.INPUTS, dtype=torch.float64)).shape == (2, 7, 6)
    four = layer(torch.randn(2, 3, 7, energy_problems.INPUTS, dtype=torch.float64))
    assert four.shape == (2, 3, 7, 6)


def test_any_module_can_inject() -> None:
    torch.manual_seed(0)
    U = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5))
    problem = geq.EnergyProblem(geq.kernels.GaussianKernel(0.1), W=geq.operators.Dense(6, 5), U=U).double()
    layer = geq.Equilibrium(problem, tol=1e-9)
    layer(vectors()).sum().backward()
    assert all(parameter.grad is not None for parameter in U.parameters())


@pytest.mark.parametrize(
    ("similarity", "expected", "told"),
    [
        (geq.kernels.GaussianKernel(0.1), 5, r"output \(the features Wz\)"),
        (geq.kernels.LinearKernel(), 6, r"input \(the state z\)"),
    ],
)
def test_wrong_channels_are_refused_when_built(
    similarity: geq.kernels.Kernel, expected: int, told: str
) -> None:
    with pytest.raises(geq.errors.OptionError, match=rf"{told}.*expected {expected} channels, got 3"):
        geq.EnergyProblem(similarity, W=geq.operators.Dense(6, 5), U=geq.operators.Dense(4, 3))


@pytest.mark.parametrize(
    ("W", "U", "x", "told"),
    [
        (geq.operators.Dense(6, 5), nn.Linear(4, 3), (2, 4), r"must be \(batch, …, 5\): got \(2, 3\)"),
        (geq.operators.Dense(6, 5), nn.Linear(4, 5), (4,), r"must be \(batch, …, 5\): got \(5,\)"),
        (
            geq.operators.Convolution(6, 5),
            nn.Linear(4, 5),
            (2, 4),
            r"must be \(batch, 5, height, width\): got \(2, 5\)",
        ),
        (geq.operators.Dense(6, 5), nn.Conv2d(4, 5, 1), (2, 4, 3, 3), r"\(batch, …, 5\): got \(2, 5, 3, 3\)"),
        (
            geq.operators.Convolution(6, 5, kernel_size=7),
            nn.Conv2d(4, 5, 1),
            (2, 4, 2, 2),
            r"at least 3 pixels.*\(2, 2\)",
        ),
    ],
)
def test_wrong_injections_are_refused(W: Any, U: nn.Module, x: tuple[int, ...], told: str) -> None:
    problem = geq.EnergyProblem(geq.kernels.GaussianKernel(0.1), W=W, U=U)
    with pytest.raises(geq.errors.InputError, match=rf"U\(x\), which Gaussian compares.*{told}|{told}"):
        problem.inject(torch.randn(x))


def test_problem_of_ones_own() -> None:
    """Override inject, score and initial_state: the cell, the adjoint and the layer follow."""

    class Quartic(geq.EnergyProblem):
        def inject(self, x: Tensor) -> Tensor:
            return self.U(x)

        def initial_state(self, c: Any) -> Tensor:
            return torch.zeros_like(c)

        def score(self, z: Tensor, c: Any) -> Tensor:
            return (c * z - 0.25 * z**4).sum(1)

    problem = Quartic(
        geq.kernels.LinearKernel(), W=geq.operators.Dense(3, 3), U=geq.operators.Dense(4, 3)
    ).double()
    layer = geq.Equilibrium(problem, tol=1e-12, max_steps=200).eval()
    x = vectors().requires_grad_()
    z = layer(x)
    c = problem.inject(x)
    torch.testing.assert_close(z + z**3, c.clamp_min(0))  # z = relu(c − z³)
    # dz/dc = 1/(1 + 3z²) where z > 0
    (gradient,) = torch.autograd.grad(z.sum(), x)
    torch.testing.assert_close(gradient, ((c > 0) / (1 + 3 * z**2)) @ problem.U.weight)
    with pytest.raises(geq.errors.OptionError, match="attention exists for Gaussian kernels: got Linear"):
        layer.attention(x)


def test_attention_needs_distances() -> None:
    layer = geq.Equilibrium(energy_problems.dense("linear")).eval()
    with pytest.raises(
        geq.errors.OptionError,
        match="Gaussian kernels: got LinearKernel; use GaussianKernel or PatchGaussianKernel",
    ):
        layer.attention(vectors())


def test_two_problems_do_not_share_the_state_of_a_norm_rule() -> None:
    rule = geq.constraints.SpectralBound(0.5)
    first, second = (geq.operators.Convolution(2, 2, constraint=rule) for _ in range(2))
    assert first.constraint is not second.constraint
    first(torch.randn(1, 2, 5, 5))
    assert first.constraint.followed.direction.numel() == 50
    assert second.constraint.followed is None
