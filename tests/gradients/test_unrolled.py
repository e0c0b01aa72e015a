from __future__ import annotations

import pytest
import torch
from torch import Tensor

import energy_problems
import geq


@pytest.mark.parametrize("damping", [0.5, 1.0])
def test_layer_is_its_iterations(damping: float) -> None:
    """In training and in evaluation alike, for every solver."""
    problem, x = energy_problems.dense("gaussian"), energy_problems.vectors()
    layer = geq.Equilibrium(
        problem, solver=geq.solvers.Broyden(), gradient=geq.gradients.Unrolled(3, damping)
    )
    cell = problem
    c = problem.inject(x)
    z = torch.zeros(3, energy_problems.STATE, dtype=torch.float64)
    for _ in range(3):
        z = (1 - damping) * z + damping * cell(z, c)
    torch.testing.assert_close(layer.train()(x), z)
    torch.testing.assert_close(layer.eval()(x), z)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), z)
    solution = layer.solve(x)
    torch.testing.assert_close(solution.value, z.detach())
    assert solution.steps.tolist() == [3, 3, 3]


def test_residual_at_the_end_is_known() -> None:
    layer = geq.Equilibrium(
        energy_problems.dense("gaussian"), gradient=geq.gradients.Unrolled(2), tol=1e-9
    ).eval()
    x = energy_problems.vectors()
    z = layer(x).detach()
    assert layer.last_solution is not None
    assert not layer.last_solution.converged.any()
    assert layer.last_solution.steps.tolist() == [2, 2, 2]
    image = layer.cell(z, layer.cell.inject(x)).detach()
    torch.testing.assert_close(layer.last_solution.residual, (image - z).norm(dim=1) / image.norm(dim=1))


def test_divergence_is_an_error() -> None:
    problem = energy_problems.dense("linear", constraint=geq.constraints.Unconstrained())
    with torch.no_grad():
        problem.W.raw_weight.mul_(100)
    layer = geq.Equilibrium(problem, gradient=geq.gradients.Unrolled(300))
    with pytest.raises(
        geq.ConvergenceError, match=r"300 unrolled iterations must stay finite.*bound the norm"
    ):
        layer(energy_problems.vectors())


def test_gradient_reaches_the_start() -> None:
    layer = geq.Equilibrium(energy_problems.dense("gaussian"), gradient=geq.gradients.Unrolled(2)).eval()
    z0 = torch.rand(3, energy_problems.STATE, dtype=torch.float64, requires_grad=True)
    x = energy_problems.vectors()

    def call(start: Tensor) -> Tensor:
        return layer(x, z0=start)

    assert torch.autograd.gradcheck(call, (z0,), fast_mode=True)
