"""A bounded feedback cannot explain everything: the distances at an equilibrium against those at z = 0."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings

import geq
import random_layers
from random_layers import Recipe

GAUSSIAN = ("gaussian", "patch", "conv-gaussian")


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(random_layers.recipes(kernels=GAUSSIAN, largest=1.4))
def test_the_residual_keeps_its_share_of_the_input(recipe: Recipe) -> None:
    """‖z‖ ≤ σ‖e‖, since β ≤ 1 and a prox with prox(0) = 0 does not expand; so ‖v − e‖ ≤ σ²‖e‖."""
    case = recipe.build()
    solution = case.layer.solve(case.x)
    assume(bool(solution.converged.any()))
    c = case.layer.problem.inject(case.x)
    u = c.W(solution.value)
    sigma = case.layer.well_posedness(case.layer.map_size(case.x)).feedback_norm
    solved, at_zero = (c.distances(t).sum(1).sqrt() for t in (u, torch.zeros_like(u)))
    assert (solved * (1 + sigma**2) >= at_zero * (1 - 1e-6))[solution.converged].all()


@pytest.mark.parametrize("sigma", [0.5, 1.4])
def test_one_number_meets_the_bound(sigma: float) -> None:
    """z = σ(v − σz) has the residual v/(1 + σ²)."""
    problem = geq.EnergyProblem(
        geq.kernels.GaussianKernel(gamma=1e-12),
        W=geq.operators.Dense(1, 1, constraint=geq.constraints.Unconstrained()),
        U=geq.operators.Dense(1, 1),
    ).double()
    with torch.no_grad():
        problem.W.raw_weight.fill_(sigma)
        problem.U.raw_weight.fill_(1.0)
    layer = geq.Equilibrium(problem, tol=1e-12, max_steps=500).eval()
    v = torch.tensor([[0.3], [2.0]], dtype=torch.float64)
    torch.testing.assert_close(v - sigma * layer(v), v / (1 + sigma**2), rtol=1e-8, atol=0)
