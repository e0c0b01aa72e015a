"""Closed form = derived cell = stationary map of the energy, for every kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import energy_problems
import geq
from energy_problems import CASES, vectors
from geq.cells import EnergyEquation
from geq.cells.linearisation import ProximalLinearisation
from geq.errors import InputError

PENALTIES = [
    geq.penalties.NonNegative(),
    geq.penalties.Box(-0.1, 0.2),
    geq.penalties.L1(0.1),
    geq.penalties.ElasticNet(0.1, 0.5),
    geq.penalties.NoPenalty(),
]


@pytest.mark.parametrize("case", CASES)
def test_closed_form_equals_derived_equals_energy(case: str) -> None:
    build, data = CASES[case]
    problem, x = build(), data()
    closed, derived = problem, energy_problems.derived(problem)
    c = problem.inject(x)
    z = torch.rand_like(problem.initial_state(c))  # feasible: the energy is finite
    image = closed(z, c)
    assert image.abs().max().item() > 1e-3
    torch.testing.assert_close(image, derived(z, c), rtol=1e-10, atol=1e-12)

    z.requires_grad_()
    (slope,) = torch.autograd.grad(problem.energy(z, c).sum(), z)
    torch.testing.assert_close(image, (z - slope).clamp_min(0), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", [case for case in CASES if "polynomial-literal" not in case])
def test_equilibrium_is_a_stationary_point_of_the_energy(case: str) -> None:
    """Karush–Kuhn–Tucker: no slope where z > 0, none downwards where z = 0."""
    build, data = CASES[case]
    problem, x = build(), data()
    layer = geq.Equilibrium(problem, tol=1e-12, max_steps=1000).eval()
    z = layer.solve(x).value.clamp_min(0).requires_grad_()
    (slope,) = torch.autograd.grad(problem.energy(z, problem.inject(x)).sum(), z)
    free = z > 1e-9
    assert bool(free.any())
    assert float(slope[free].abs().max()) < 1e-9
    assert bool((slope[~free] > -1e-9).all())


def test_literal_polynomial_has_a_dead_equilibrium() -> None:
    """Reason for the default offset: the printed kernel stays at z = 0 with no gradient at all."""
    layer = geq.Equilibrium(energy_problems.dense("polynomial-literal")).eval()
    x = vectors().requires_grad_()
    z = layer(x)
    assert not z.any()
    assert not torch.autograd.grad(z.sum(), x)[0].any()


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
def test_every_penalty_makes_a_cell(penalty: geq.penalties.Penalty) -> None:
    problem, x = energy_problems.dense("gaussian", penalty=penalty), vectors()
    c = problem.inject(x)
    z = torch.randn_like(problem.initial_state(c))
    s = z - problem.gradient(z, c)
    for cell in (problem, energy_problems.derived(problem)):
        torch.testing.assert_close(cell(z, c), penalty.prox(s))


@pytest.mark.parametrize("step", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
def test_step_keeps_the_fixed_point(penalty: geq.penalties.Penalty, step: float) -> None:
    problem, x = energy_problems.dense("gaussian", penalty=penalty), vectors()
    layer = geq.Equilibrium(problem, tol=1e-13, max_steps=500).eval()
    fn = layer.cell.equation(x)
    assert isinstance(fn, EnergyEquation)
    z = layer.solve(x).value
    torch.testing.assert_close(fn.proximal(step)(z), z, rtol=1e-10, atol=1e-12)
    elsewhere = torch.randn_like(z)
    if step == 1:
        torch.testing.assert_close(fn.proximal(1.0)(elsewhere), fn(elsewhere))
    moved = penalty.prox(elsewhere - step * problem.gradient(elsewhere, problem.inject(x)), step)
    torch.testing.assert_close(fn.proximal(step)(elsewhere), elsewhere + (moved - elsewhere) / step)


def test_step_must_be_positive() -> None:
    problem = energy_problems.dense()
    with pytest.raises(geq.errors.OptionError, match="step must be positive: got 0"):
        problem.equation(vectors()).proximal(0.0)


@pytest.mark.parametrize("derive", [False, True])
def test_linearisation_is_the_jacobian(derive: bool) -> None:
    """T' = D·H with the diagonal D and the symmetric H, against autograd."""
    problem, x = energy_problems.dense("gaussian"), vectors(1)
    fn = (energy_problems.derived(problem) if derive else problem).equation(x)
    z = torch.randn(1, energy_problems.STATE, dtype=torch.float64)
    at = ProximalLinearisation(fn, z)
    s, (image,), slope = at.differentiated, at.inputs, at.slope

    H = torch.autograd.functional.jacobian(fn.attraction, z)[0, :, 0]
    J = torch.autograd.functional.jacobian(fn, z)[0, :, 0]
    torch.testing.assert_close(H, H.T)
    torch.testing.assert_close(slope.T * H, J)
    torch.testing.assert_close(image, fn(z))
    assert s.requires_grad
    assert not slope.requires_grad


def test_cell_of_ones_own() -> None:
    class Affine(geq.Cell):
        def forward(self, z: Tensor, c: Tensor) -> Tensor:
            return 0.5 * z + c

    cell = Affine()
    x = vectors()
    assert cell.inject(x) is x
    assert not cell.initial_state(x).any()
    torch.testing.assert_close(cell.equation(x)(x), 1.5 * x)
    torch.testing.assert_close(geq.Equilibrium(cell, tol=1e-12)(x), 2 * x)


class Wider(geq.Cell):
    """A state of 10 entries for inputs of 7."""

    def __init__(self) -> None:
        super().__init__()
        self.A, self.B = torch.nn.Linear(10, 10, bias=False), torch.nn.Linear(7, 10)
        torch.nn.init.orthogonal_(self.A.weight, gain=0.5)

    def forward(self, z: Any, c: Any) -> Any:
        return torch.tanh(self.A(z) + self.B(c))


class WiderStart(Wider):
    def initial_state(self, c: Any) -> Any:
        return c.new_zeros(len(c), 10)


class WiderAdded(Wider):
    def forward(self, z: Any, c: Any) -> Any:
        return 0.5 * z + self.B(c)


@pytest.mark.parametrize("kind", [Wider, WiderAdded])
def test_a_state_of_another_size_than_x_names_what_to_override(kind: type[Wider]) -> None:
    with pytest.raises(InputError, match=rf"{kind.__name__}.forward .* \(3, 7\).*override initial_state"):
        geq.Equilibrium(kind())(torch.randn(3, 7))
    layer = geq.Equilibrium(WiderStart(), tol=1e-6)
    x = torch.randn(3, 7)
    z = layer(x)
    torch.testing.assert_close(layer.cell(z, x), z, rtol=1e-4, atol=1e-5)


def test_a_mistake_inside_a_cell_of_the_right_size_keeps_its_own_error() -> None:
    class Mistaken(WiderStart):
        def forward(self, z: Any, c: Any) -> Any:
            return self.A(c)

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        geq.Equilibrium(Mistaken())(torch.randn(3, 7))
