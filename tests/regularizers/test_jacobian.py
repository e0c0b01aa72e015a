"""The Jacobian penalty, fixed-point correction and spectral radius, against the full Jacobian."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import energy_problems
import geq
from geq.cells.base import parts_of
from geq.regularizers import FixedPointCorrection, JacobianPenalty


def vectors(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class Tanh(nn.Module):
    """Not symmetric: most of its eigenvalues are complex."""

    def __init__(self, size: int = 6, strength: float = 0.3) -> None:
        super().__init__()
        self.weight = nn.Parameter(strength * vectors(size, size))

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(z @ self.weight.T + x)


class TwoParts(geq.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.4 * vectors(5, 5))

    def initial_state(self, c: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(c), c.new_zeros(len(c), 2)

    def forward(self, z: tuple[Tensor, Tensor], c: Tensor) -> tuple[Tensor, Tensor]:
        row = torch.tanh(torch.cat(z, 1) @ self.weight.T)
        return row[:, :3] + c, row[:, 3:]


class Coupled(geq.Cell):
    couples_samples = True

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        return c + 0.3 * torch.sin(z) + 0.5 * z.mean(0)


def case(name: str) -> tuple[geq.Equilibrium, Tensor]:
    cell: Any
    if name == "patch":
        cell, x = energy_problems.conv("patch"), energy_problems.small_maps()
    elif name == "tanh":
        cell, x = Tanh(), vectors(3, 6)
    elif name == "two parts":
        cell, x = TwoParts(), vectors(2, 3)
    elif name == "coupled":
        cell, x = Coupled(), vectors(4, 3)
    else:
        cell, x = energy_problems.dense(name), energy_problems.vectors()
    return geq.Equilibrium(cell, tol=1e-11, max_steps=400).eval(), x


def jacobian(layer: geq.Equilibrium, x: Tensor, z: Any) -> Tensor:
    """∂T/∂z of the whole batch as a matrix, by autograd column after column."""
    parts = tuple(part.detach() for part in parts_of(z))

    def flat(*parts: Tensor) -> Tensor:
        image = layer.image(x, parts if len(parts) > 1 else parts[0])
        return torch.cat([part.flatten() for part in parts_of(image)])

    blocks = torch.autograd.functional.jacobian(flat, parts)
    return torch.cat([block.reshape(len(block), -1) for block in blocks], 1)


CASES = ["tanh", "two parts", "coupled", "gaussian", "linear", "own", "patch", "sigmoid"]


@pytest.mark.parametrize("name", CASES)
def test_penalty_is_an_unbiased_estimate_of_the_squared_norm(name: str) -> None:
    layer, x = case(name)
    z = layer(x).detach() if name != "two parts" else tuple(part.detach() for part in layer(x))
    J = jacobian(layer, x, z)
    expected = float(J.square().sum() / len(J))
    torch.manual_seed(0)
    with torch.no_grad():
        values = torch.stack([JacobianPenalty(samples=10)(layer, x, z) for _ in range(60)])
    assert not values.requires_grad
    error = float(values.std() / 60**0.5)
    assert abs(float(values.mean()) - expected) < 4 * error + 1e-12
    assert error < 0.05 * expected


def test_gradient_of_the_penalty_is_exact_through_the_state() -> None:
    """For a fixed v, against finite differences of the whole computation, solve included."""
    layer, x = case("tanh")
    layer.gradient = geq.gradients.Implicit(tol=1e-12)
    x.requires_grad_()
    penalty = JacobianPenalty(samples=2)

    def value(x: Tensor) -> Tensor:
        torch.manual_seed(3)
        return penalty(layer, x, layer(x))

    assert torch.autograd.gradcheck(value, (x,))
    torch.manual_seed(3)
    held = torch.autograd.grad(penalty(layer, x, layer(x).detach()), x)[0]
    assert not torch.allclose(held, torch.autograd.grad(value(x), x)[0], rtol=1e-2)


def test_training_with_the_penalty_lowers_the_spectral_radius() -> None:
    torch.manual_seed(0)
    cell, x = Tanh(strength=0.5), vectors(8, 6)
    layer = geq.Equilibrium(cell, tol=1e-8, max_steps=300, on_failure="ignore")
    penalty = JacobianPenalty()
    before = float(layer.spectral_radius(x).max())
    optimiser = torch.optim.SGD(cell.parameters(), 0.5)
    for _ in range(30):
        optimiser.zero_grad()
        penalty(layer, x, layer(x)).backward()
        optimiser.step()
    assert float(layer.spectral_radius(x).max()) < 0.7 * before


@pytest.mark.parametrize("name", CASES)
def test_spectral_radius_is_that_of_the_full_jacobian(name: str) -> None:
    layer, x = case(name)
    with torch.no_grad():
        z = layer(x)
    J = jacobian(layer, x, z)
    found = layer.spectral_radius(x, tol=1e-10)
    assert found.shape == (len(x),)
    if name == "coupled":
        expected = torch.linalg.eigvals(J).abs().max().expand(len(x))
    else:
        parts = [part.shape[1:].numel() for part in parts_of(z)]
        blocks = []
        for sample in range(len(x)):
            offset, rows = 0, []
            for size in parts:
                rows += [offset + sample * size + index for index in range(size)]
                offset += len(x) * size
            blocks.append(J[rows][:, rows])
        expected = torch.linalg.eigvals(torch.stack(blocks)).abs().amax(1)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-12)
    torch.testing.assert_close(layer.spectral_radius(x, z=z, tol=1e-10), found, rtol=1e-6, atol=1e-9)


def test_spectral_radius_of_special_maps() -> None:
    x = vectors(2, 5)
    none = geq.Equilibrium(lambda z, x: 2 * x)
    assert none.spectral_radius(x).tolist() == [0.0, 0.0]
    half = geq.Equilibrium(lambda z, x: 0.5 * z + x, max_steps=100)
    torch.testing.assert_close(half.spectral_radius(x), torch.full((2,), 0.5, dtype=torch.float64))
    flip = geq.Equilibrium(lambda z, x: x - 0.7 * z, max_steps=100)  # the power iteration would not stop
    torch.testing.assert_close(flip.spectral_radius(x), torch.full((2,), 0.7, dtype=torch.float64))


def test_a_radius_that_is_not_found_is_warned_of() -> None:
    layer = geq.Equilibrium(Tanh(60, 0.1), on_failure="ignore")
    with pytest.warns(geq.ConvergenceWarning, match=r"not within 3 products for 2 of 2 samples"):
        layer.spectral_radius(vectors(2, 60), tol=1e-9, max_steps=3)
    with pytest.raises(geq.errors.OptionError, match="max_steps at least 1"):
        layer.spectral_radius(vectors(2, 60), max_steps=0)


@pytest.mark.parametrize("gradient", [geq.gradients.JacobianFree(), geq.gradients.Implicit()])
def test_trajectory_has_the_states_of_the_solve(gradient: geq.gradients.Gradient) -> None:
    cell, x = Tanh(), vectors(3, 6).requires_grad_()
    layer = geq.Equilibrium(cell, solver=geq.solvers.Picard(), gradient=gradient, tol=1e-9, max_steps=500)
    first, third, last = layer.trajectory(x, at=[1, 3, 10**6])[0:3]
    state = torch.zeros_like(x)
    for count in (1, 2, 3):
        state = cell(state, x)
        if count == 1:
            torch.testing.assert_close(first, state)
    torch.testing.assert_close(third, state)
    torch.testing.assert_close(last, layer(x))
    assert all(z.requires_grad for z in (first, third, last))
    with torch.no_grad():
        assert not any(z.requires_grad for z in layer.trajectory(x, at=[1]))


def test_trajectory_of_an_energy_problem_is_of_states() -> None:
    layer, x = case("gaussian")
    early, last = layer.trajectory(x.requires_grad_(), at=[2])
    assert early.shape == last.shape == layer(x).shape
    assert float((early - last).detach().norm()) > 1e-6
    assert torch.autograd.grad(early.sum(), x)[0].abs().sum() > 0


@pytest.mark.parametrize(
    "gradient",
    [geq.gradients.Unrolled(6, 0.5), geq.gradients.Reversible(6, 0.5)],
    ids=lambda g: type(g).__name__,
)
def test_correction_through_iterations_is_their_weighted_loss(gradient: Any) -> None:
    cell, x = Tanh(), vectors(3, 6)
    layer = geq.Equilibrium(cell, gradient=gradient, tol=1e-2)
    states = layer.trajectory(x, at=(2, 4))
    assert len(states) == 3
    loss = FixedPointCorrection(0.5)(lambda z: z.square().sum(), states)
    (found,) = torch.autograd.grad(loss, cell.weight)
    equation = layer.equation(x)
    every = list(gradient.trajectory(equation, equation.start()))
    expected = sum(weight * every[i].square().sum() for weight, i in ((0.25, 1), (0.5, 3), (1.0, 5)))
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(found, torch.autograd.grad(expected, cell.weight)[0])


def test_bad_options() -> None:
    with pytest.raises(geq.errors.OptionError, match="samples must be at least 1: got 0"):
        JacobianPenalty(samples=0)
    with pytest.raises(geq.errors.OptionError, match="did you mean 'samples'"):
        JacobianPenalty(sample=2)
    with pytest.raises(geq.errors.OptionError, match=r"decay must lie in \(0, 1\]: got 0"):
        FixedPointCorrection(0.0)
    with pytest.raises(geq.errors.InputError, match="at least one state"):
        FixedPointCorrection()(lambda z: z.sum(), [])
    with pytest.raises(geq.errors.OptionError, match="counts evaluations from 1"):
        geq.Equilibrium(Tanh()).trajectory(vectors(2, 6), at=[0])
    layer, x = case("tanh")
    with torch.inference_mode(), pytest.raises(geq.errors.GradientError, match=r"use torch\.no_grad"):
        JacobianPenalty()(layer, x, x)
