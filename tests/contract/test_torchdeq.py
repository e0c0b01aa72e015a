"""The same cell and weights under torchdeq and geq: fixed points and gradients agree.

The table of ``docs/from_torchdeq.md``, line by line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import geq

torchdeq = pytest.importorskip("torchdeq")
from torchdeq.loss import jac_reg, power_method  # noqa: E402

SOLVERS: dict[str, geq.solvers.Solver[Any]] = {
    "fixed_point_iter": geq.solvers.Picard(),
    "anderson": geq.solvers.Anderson(memory=6),
    "broyden": geq.solvers.Broyden(),
}
GRADIENTS: dict[str, tuple[dict[str, Any], geq.gradients.Gradient]] = {
    "ift": ({"ift": True}, geq.gradients.Implicit(tol=1e-12)),
    "phantom": ({"grad": 5, "tau": 0.8}, geq.gradients.Phantom(5, 0.8)),
    "one step": ({"grad": 1}, geq.gradients.JacobianFree()),
}
CLOSE = {"rtol": 1e-6, "atol": 1e-8}


class Residual(nn.Module):
    """A residual convolution cell with group norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(6, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        return 0.4 * self.norm(z + self.second(F.relu(self.first(z))) + x)


class Attention(nn.Module):
    """A transformer cell."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        q, k, v = self.qkv(z + x).chunk(3, -1)
        return 0.3 * torch.tanh(self.out(F.scaled_dot_product_attention(q, k, v))) + x


CELLS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, (2, 4, 6, 6)),
    "attention": (Attention, (2, 5, 8)),
}


def cell_and_input(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    build, shape = CELLS[name]
    return build().double(), torch.randn(shape, dtype=torch.float64, requires_grad=True)


def theirs(cell: nn.Module, x: Tensor, solver: str = "anderson", **options: Any) -> Any:
    kept = {"f_max_iter": 200, "b_max_iter": 200, "f_tol": 1e-12, "b_tol": 1e-12}
    modes = {"f_stop_mode": "rel", "b_stop_mode": "rel", "f_solver": solver, "b_solver": "fixed_point_iter"}
    deq = torchdeq.get_deq(**{**kept, **modes, **options})
    # Its ridge is absolute, which stops Anderson far from the solution.
    solver_kwargs = {"lam": 1e-20} if solver == "anderson" else {}
    return deq(lambda z: cell(z, x), torch.zeros_like(x), solver_kwargs=solver_kwargs)


def gradients(z: Tensor, x: Tensor, cell: nn.Module) -> tuple[Tensor, ...]:
    weight = torch.linspace(0.5, 1.5, z.numel(), dtype=z.dtype).view_as(z)
    return torch.autograd.grad((z * weight).sum() + z.square().sum(), [x, *cell.parameters()])


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", CELLS)
def test_fixed_points_and_gradients_agree(name: str, solver: str, gradient: str) -> None:
    cell, x = cell_and_input(name)
    options, ours = GRADIENTS[gradient]
    (reference,), _ = theirs(cell, x, solver, **options)
    layer = geq.Equilibrium(cell, SOLVERS[solver], ours, tol=1e-12, max_steps=200)
    z = layer(x)
    torch.testing.assert_close(z, reference, **CLOSE)
    for one, other in zip(gradients(z, x, cell), gradients(reference, x, cell), strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def test_sampled_states_agree() -> None:
    """``indexing`` is ``at``; its states are the images of as many plain iterations."""
    cell, x = cell_and_input("attention")
    states, _ = theirs(cell, x, "fixed_point_iter", indexing=[2, 4], grad=1)
    layer = geq.Equilibrium(
        cell, geq.solvers.Picard(), geq.gradients.JacobianFree(), tol=1e-12, max_steps=200
    )
    ours = layer.trajectory(x, at=[2, 4])
    assert len(ours) == len(states) == 3
    torch.testing.assert_close(ours[-1], states[-1], **CLOSE)
    # Theirs takes one step of the gradient more from each state, and goes on from there.
    torch.testing.assert_close(cell(ours[0], x), states[0], **CLOSE)
    torch.testing.assert_close(cell(cell(ours[1], x), x), states[1], **CLOSE)


def test_jacobian_penalty_and_spectral_radius_agree() -> None:
    cell, x = cell_and_input("attention")
    layer = geq.Equilibrium(cell, tol=1e-12, max_steps=200)
    z = layer(x).detach().requires_grad_()
    image = cell(z, x)
    torch.manual_seed(1)
    reference = float(jac_reg(image, z, vecs=800, create_graph=False))
    with torch.no_grad():
        found = float(geq.regularizers.JacobianPenalty(samples=800)(layer, x, z))
    assert found == pytest.approx(reference, rel=0.05)
    _, radius = power_method(image, z, n_iters=500)
    torch.testing.assert_close(
        layer.spectral_radius(x, tol=1e-9), radius.detach().flatten(), rtol=1e-2, atol=0
    )
